// SPDX-License-Identifier: Apache-2.0
// From the hidden states of a step's rows to tokens: scores of prompts, the head, sampling and acceptance.

#include <algorithm>

#include "base/clock.h"
#include "decode/chain/chain.h"
#include "decode/verify/prompt_scores.h"
#include "decode/verify/verify.h"

namespace ashlar {

void ChainDecoder::score(const StepPlan& plan, SlotTable& slots, Tensor hidden, StepResult& result) {
  int32_t scored = 0;
  for (size_t i = 0; i < work_.size(); ++i) {
    const Work& work = work_[i];
    if (work.n_scored == 0) continue;
    const Span& span = plan.spans[i];
    Slot& slot = slots[span.slot];
    SpanResult& outcome = result.spans[i];
    const Tensor rows = hidden.part(work.first_scored, work.n_scored);
    if (scorer_.score(model_, *logits_, rows, span.prompt + span.score_from + 1, slot.prompt_top,
                      &result.prompt_tokens[scored])) {
      outcome.first_scored = scored;
      outcome.n_scored = work.n_scored;
      scored += work.n_scored;
    } else {
      outcome.end = SpanEnd::kNoNumbers;
      slot.done = work_[i].scores_failed = true;
    }
  }
}

void ChainDecoder::sample(const StepPlan& plan, SlotTable& slots, Tensor hidden, StepResult& result) {
  int64_t head_ns = 0;
  for (size_t first = 0; first < work_.size();) {
    size_t last = first;
    int32_t rows = 0;
    int32_t first_output = 0;
    bool choices = model_.scales_exactly();
    for (; last < work_.size(); ++last) {
      const Work& work = work_[last];
      const bool choice = choices && (work.n_outputs == 0 || needs_only_choice(slots[plan.spans[last].slot]));
      if (rows + work.n_outputs > (choice ? kChoiceRows : logits_->capacity())) break;
      if (rows == 0) first_output = work.first_output;
      // Outputs that score a prompt may stand between two spans' own.
      if (work.n_outputs > 0 && work.first_output != first_output + rows) break;
      rows += work.n_outputs;
      choices = choice;
    }
    const int64_t begin = now_ns();
    const auto spans = std::span(walks_).subspan(first, last - first);
    for (size_t i = first; i < last; ++i) begin_walk(i, first_output, plan, slots, result);
    if (rows > 0 && choices) {
      model_.head_argmax(hidden.part(first_output, rows), choices_.device());
      const std::span<const int32_t> tokens = choices_.download(rows);
      head_ns += now_ns() - begin;
      for (size_t i = first; i < last; ++i) {
        if (!walks_[i].ended()) walks_[i].take_highest(tokens.subspan(work_[i].first_output - first_output));
      }
    } else if (rows > 0) {
      const Tensor logits = logits_->rows(rows);
      model_.head(hidden.part(first_output, rows), logits);
      head_ns += now_ns() - begin;
      verifier_.verify(model_.ops(), logits, spans);
    }
    for (size_t i = first; i < last; ++i) finish_span(i, plan, slots, result);
    first = last;
  }
  result.times.verify_ns += head_ns;
  result.times.sample_ns = head_ns;
}

void ChainDecoder::begin_walk(size_t index, int32_t first_output, const StepPlan& plan, SlotTable& slots,
                              StepResult& result) {
  const Span& span = plan.spans[index];
  Work& work = work_[index];
  SpanResult& outcome = result.spans[index];
  if (work.n_outputs == 0 || work.scores_failed) return walks_[index].skip();
  VerifyInput input;
  input.first_row = work.first_output - first_output;
  input.n = work.n_outputs;
  input.start = span.start + span.n_rows - 1;
  if (work.chain >= 0) {
    const ChainSpan& chain = chains_[work.chain];
    input.start = chain.start;
    input.drafts = chain.ids + 1;
    input.parents = chain.parents;
    input.path = work.path;
    for (int32_t j = 0; j + 1 < input.n; ++j) {
      const bool certain = !chain.proposes || j < work.forced;
      work.draft_q[j] = certain ? nullptr : proposer_->draft_distribution(span.slot, j + 1);
    }
    input.draft_q = work.draft_q;
  }
  walks_[index].begin(input, vocab(), slots[span.slot], outcome, &result.logprob(index, 0));
}

void ChainDecoder::finish_span(size_t index, const StepPlan& plan, SlotTable& slots, StepResult& result) {
  const Span& span = plan.spans[index];
  Work& work = work_[index];
  if (work.n_rows == 0) return;
  Slot& slot = slots[span.slot];
  const bool chain = work.chain >= 0;
  SpanResult& outcome = result.spans[index];
  if (work.scores_failed) {
    outcome.computed = slot.length;
    return;
  }
  if (chain && !chains_[work.chain].proposes) outcome.n_ngram_accepted = std::max(outcome.n_accepted - work.forced, 0);
  // A row of a chain is certain once a token was chosen there: the last token, then each draft that its parent
  // confirmed. A prompt whose last row had no mask yet leaves that row to the first decode span.
  work.committed = chain ? outcome.n_tokens : span.n_rows;
  if (!chain && outcome.cut) {
    --work.committed;
    slot.last_token = span.prompt[span.n_rows - 1];
    if (span.n_rows > 1) slot.token_before = span.prompt[span.n_rows - 2];
  } else if (!chain) {
    slot.token_before = span.prompt[span.n_rows - 1];
  }
  slot.length = (chain ? slot.length : span.start) + work.committed;
  slot.replays = work.state.replays_after(work.n_rows, work.committed);
  outcome.computed = slot.length;
  outcome.n_decided = outcome.n_tokens;
}

}  // namespace ashlar
