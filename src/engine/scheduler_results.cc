// SPDX-License-Identifier: Apache-2.0
// What a step has found out: the sequences' new tokens, and what is counted of them.

#include <algorithm>

#include "base/clock.h"
#include "base/error.h"
#include "engine/scheduler.h"

namespace ashlar {

void Scheduler::collect(Step& step) {
  // Whatever happens below: snapshots that no page took come back.
  struct DropsSaves {
    Scheduler& self;
    Step& step;
    ~DropsSaves() { self.drop_saves(step); }
  } at_the_end = {*this, step};
  for (const Step::Member& member : step.members) {  // first of all, so that an exception below leaves the counts true
    --member.sequence->inflight;
    member.sequence->inflight_tokens -= member.max_tokens;
    member.sequence->inflight_min -= member.min_new_tokens;
  }
  for (size_t i = 0; i < step.members.size(); ++i) {
    const Step::Member& member = step.members[i];
    Sequence& sequence = *member.sequence;
    if (sequence.ended) continue;
    if (!step.error.empty()) {
      end(sequence, FinishReason::kError, step.error);
      continue;
    }
    const SpanResult& span = step.result.spans[i];
    if (!span.active) continue;
    sequence.computed = span.computed;
    if (member.prefill_to > 0) {
      totals_.prefill_tokens += step.plan.spans[i].n_rows;
      report_prompt(sequence, span, step.result);
      report_hidden(sequence, span, step.result);
      if (member.prefill_to == sequence.prefill_end && sequence.stats.prompt_done_ns == 0) {
        sequence.stats.prompt_done_ns = now_ns();
      }
    } else {
      sequence.block_pass = span.pass;
      if (span.n_decided > 0 || !span.cut) count_step(sequence, span);
    }
    append(sequence, span, &step.result.logprob(i, 0));
    keep_saves(step.plan.spans[i], sequence);
    if (sequence.request.prompt_only && member.prefill_to == sequence.prefill_end) {
      end(sequence, FinishReason::kLength, {});
    }
  }
  const StepTimes& times = step.result.times;
  if (step.error.empty()) pace_.learn(step.plan.n_rows, step.prompt_rows(), times.total_ns());
  totals_.draft_ns += times.draft_ns;
  totals_.verify_ns += times.verify_ns;
  totals_.sample_ns += times.sample_ns;
  totals_.context_ns += times.context_ns;
  ++totals_.steps;
  if (step.error.empty()) totals_.last_progress_ns = now_ns();
  release_idle();
}

void Scheduler::report_prompt(Sequence& sequence, const SpanResult& span, const StepResult& result) {
  if (span.n_scored == 0) return;
  const PromptEvent event = {sequence.next_scored, span.n_scored, &result.prompt_tokens[span.first_scored]};
  sequence.next_scored += span.n_scored;
  try {
    sequence.request.sink->on_prompt(event);
  } catch (const std::exception& error) {
    end(sequence, FinishReason::kError, message_of(error));
  }
}

void Scheduler::report_hidden(Sequence& sequence, const SpanResult& span, const StepResult& result) {
  if (span.n_hidden == 0 || sequence.ended) return;
  const HiddenRow row = decoder_.hidden_row();
  const HiddenEvent event = {sequence.next_hidden, span.n_hidden, row,
                             result.hidden.data() + static_cast<size_t>(span.first_hidden) * row.bytes()};
  sequence.next_hidden += span.n_hidden;
  try {
    sequence.request.sink->on_hidden(event);
  } catch (const std::exception& error) {
    end(sequence, FinishReason::kError, message_of(error));
  }
}

void Scheduler::count_step(Sequence& sequence, const SpanResult& span) {
  RequestStats& stats = sequence.stats;
  ++stats.verify_steps;
  sequence.newest_rows = 1 + span.n_drafted;
  stats.drafted += span.n_drafted;
  stats.accepted += span.n_accepted;
  stats.ngram_accepted += span.n_ngram_accepted;
  for (int32_t k = 0; k < span.n_drafted; ++k) ++stats.drafted_at[k];
  for (int32_t k = 0; k < span.n_accepted; ++k) ++stats.accepted_at[k];
  ++stats.lengths[span.n_decided];
  ++totals_.verify_spans;
  totals_.decided += span.n_decided;
  totals_.drafted += span.n_drafted;
  totals_.accepted += span.n_accepted;
  totals_.ngram_accepted += span.n_ngram_accepted;
}

// Tokens of a block come in order, so that its first one, or the answer's first one, begins a new block.
void Scheduler::count_block(Sequence& sequence, const SpanResult& span) {
  RequestStats& stats = sequence.stats;
  const bool begins = span.at == 0 || stats.generated_tokens == 0;
  stats.blocks += begins ? 1 : 0;
  totals_.blocks += begins ? 1 : 0;
  const size_t last = stats.unmasked_in_pass.size() - 1;
  for (int32_t i = 0; i < span.n_tokens; ++i) ++stats.unmasked_in_pass[std::min<size_t>(span.unmask_pass[i], last)];
}

void Scheduler::append(Sequence& sequence, const SpanResult& span, const TokenLogprobs* logprobs) {
  if (sequence.ended) return;  // its sink did not take what was reported of the prompt
  if (span.n_tokens > 0) {
    if (sequence.stats.first_token_ns == 0) sequence.stats.first_token_ns = now_ns();
    if (span.unmask_pass[0] >= 0) count_block(sequence, span);
    sequence.tokens.insert(sequence.tokens.end(), span.tokens, span.tokens + span.n_tokens);
    sequence.stats.generated_tokens += span.n_tokens;
    totals_.generated_tokens += span.n_tokens;
    TokensEvent event;
    event.tokens = sequence.tokens.data() + sequence.tokens.size() - span.n_tokens;
    event.n = span.n_tokens;
    event.n_drafted = span.n_accepted;
    event.unmask_pass = span.unmask_pass[0] >= 0 ? span.unmask_pass : nullptr;
    event.at = span.at;
    event.logprobs = sequence.request.sampling.wants_logprobs() ? logprobs : nullptr;
    try {
      sequence.request.sink->on_tokens(event);
    } catch (const std::exception& error) {
      return end(sequence, FinishReason::kError, message_of(error));
    }
  }
  if (uses_cache(sequence)) {
    cache_.publish(std::span(sequence.tokens).first(sequence.computed), sequence.pages, sequence.request.salt,
                   sequence.prefix);
  }
  if (span.end == SpanEnd::kStop) end(sequence, FinishReason::kStop, {});
  if (span.end == SpanEnd::kLength) end(sequence, FinishReason::kLength, {});
  if (span.end == SpanEnd::kFailed) end(sequence, FinishReason::kError, span.error);
  if (span.end == SpanEnd::kNoNumbers) {
    end(sequence, FinishReason::kError,
        "the model's logits are not numbers here; its weights may be damaged: fetch or convert them again");
  }
  if (span.end == SpanEnd::kError) {
    const TokenConstraint* constraint = sequence.request.constraint.get();
    const std::string problem = constraint != nullptr ? constraint->problem() : std::string();
    end(sequence, FinishReason::kError,
        !problem.empty() ? problem
                         : "no token of the vocabulary satisfies the request's constraint here, nor may the answer "
                           "end; loosen the constraint",
        true);
  }
}

}  // namespace ashlar
