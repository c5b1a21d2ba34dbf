// From the hidden states of a step's rows to tokens: scores of prompts, the head, sampling and acceptance.

#include <algorithm>

#include "base/clock.h"
#include "decode/chain.h"
#include "decode/prompt_scores.h"
#include "decode/span_error.h"
#include "decode/verify.h"

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
    if (score_prompt(model_, *logits_, rows, span.prompt + span.score_from + 1, slot.prompt_top,
                     &result.prompt_tokens[scored])) {
      outcome.first_scored = scored;
      outcome.n_scored = work.n_scored;
      scored += work.n_scored;
    } else {
      outcome.end = SpanEnd::kNoNumbers;
      slot.done = true;
    }
  }
}

void ChainDecoder::sample(const StepPlan& plan, SlotTable& slots, Tensor hidden, StepResult& result) {
  struct Chunk {
    ChainDecoder* self;
    const StepPlan* plan;
    SlotTable* slots;
    StepResult* result;
    float* logits;           // [rows, vocab], or null
    const int32_t* choices;  // [rows], or null
    size_t first;
    int32_t first_output;
  };
  int64_t head_ns = 0;
  for (size_t first = 0; first < work_.size();) {
    size_t last = first;
    int32_t rows = 0;
    int32_t first_output = 0;
    bool choices = true;
    for (; last < work_.size() && rows + work_[last].n_outputs <= logits_->capacity(); ++last) {
      if (rows == 0) first_output = work_[last].first_output;
      // Outputs that score a prompt may stand between two spans' own.
      if (work_[last].n_outputs > 0 && work_[last].first_output != first_output + rows) break;
      rows += work_[last].n_outputs;
      choices = choices && (work_[last].n_outputs == 0 || needs_only_choice(slots[plan.spans[last].slot]));
    }
    const int64_t begin = now_ns();
    Chunk chunk = {this, &plan, &slots, &result, nullptr, nullptr, first, first_output};
    if (rows > 0) {
      const Tensor outputs = hidden.part(first_output, rows);
      if (choices) {
        model_.head_argmax(outputs, choices_.device());
        chunk.choices = choices_.host(rows);
      } else {
        model_.head(outputs, logits_->rows(rows));
        chunk.logits = logits_->host(rows);
      }
    }
    head_ns += now_ns() - begin;
    model_.ops().for_each(
        static_cast<int32_t>(last - first),
        [](void* context, int32_t i) {
          const auto* c = static_cast<const Chunk*>(context);
          const Work& work = c->self->work_[c->first + i];
          const int64_t row = work.n_outputs > 0 ? work.first_output - c->first_output : 0;
          float* const logits = c->logits != nullptr ? c->logits + row * c->self->vocab() : nullptr;
          const int32_t* const choices = c->choices != nullptr ? c->choices + row : nullptr;
          c->self->sample_span(c->first + i, *c->plan, *c->slots, logits, choices, *c->result);
        },
        &chunk);
    first = last;
  }
  result.times.verify_ns += head_ns;
  result.times.sample_ns = head_ns;
}

void ChainDecoder::sample_span(size_t index, const StepPlan& plan, SlotTable& slots, float* logits,
                               const int32_t* choices, StepResult& result) {
  const Span& span = plan.spans[index];
  Work& work = work_[index];
  if (work.n_rows == 0) return;
  Slot& slot = slots[span.slot];
  const bool chain = work.chain >= 0;
  SpanResult& outcome = result.spans[index];
  if (outcome.end != SpanEnd::kRunning) {  // its prompt could not be scored
    outcome.computed = slot.length;
    return;
  }
  if (work.n_outputs > 0) {
    struct Context {
      const Proposer* proposer;
      int32_t slot, certain;
    } context = {proposer_.get(), span.slot, work.forced};
    if (chain && !chains_[work.chain].proposes) context.certain = kMaxWidth;
    VerifyInput input;
    input.logits = logits;
    input.choices = choices;
    input.n = work.n_outputs;
    input.vocab = vocab();
    input.start = chain ? chains_[work.chain].start : span.start + span.n_rows - 1;
    if (chain) {
      input.drafts = chains_[work.chain].ids + 1;
      input.parents = chains_[work.chain].parents;
      input.path = work.path;
    }
    input.context = &context;
    input.draft_q = [](const void* c, int32_t j) {
      const auto* of = static_cast<const Context*>(c);
      return j < of->certain ? nullptr : of->proposer->draft_distribution(of->slot, j + 1);
    };
    run_for_span(slot, outcome, [&] { verify_span(input, slot, scratch_[index], outcome, &result.logprob(index, 0)); });
  }
  if (chain && !chains_[work.chain].proposes) outcome.n_ngram_accepted = std::max(outcome.n_accepted - work.forced, 0);
  // A row of a chain is certain once a token was chosen there: the last token, then each draft that its parent
  // confirmed. A prompt whose last row had no mask yet leaves that row to the first decode span.
  work.committed = chain ? outcome.n_tokens : span.n_rows;
  if (!chain && outcome.cut) {
    --work.committed;
    slot.last_token = span.prompt[span.n_rows - 1];
  }
  slot.length = (chain ? slot.length : span.start) + work.committed;
  slot.version += work.state.steps(work.n_rows, work.committed);
  outcome.computed = slot.length;
  outcome.n_settled = outcome.n_tokens;
}

}  // namespace ashlar
