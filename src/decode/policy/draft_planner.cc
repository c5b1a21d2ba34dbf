// SPDX-License-Identifier: Apache-2.0
#include "decode/policy/draft_planner.h"

#include <algorithm>
#include <utility>

namespace ashlar {

DraftPlanner::DraftPlanner(int32_t max_width, int32_t max_slots, int32_t max_spans, ProposerRows proposer,
                           NgramUse ngrams, KeysSeen target, KeysSeen drafter)
    : ngram_use_(ngrams),
      max_rows_(static_cast<size_t>(max_spans) * static_cast<size_t>(max_width) + 1),
      target_(std::move(target)),
      drafter_(std::move(drafter)),
      policy_(max_width, max_slots, proposer),
      known_(static_cast<size_t>(max_slots)) {
  widths_.reserve(static_cast<size_t>(max_spans));
  spans_.reserve(static_cast<size_t>(max_spans));
  if (ngrams != NgramUse::kNever) ngrams_.reserve(max_slots, max_spans);
}

void DraftPlanner::admit(int32_t slot, const Slot& state, std::span<const int32_t> tokens) {
  known_[slot] = {state.length, state.limit, state.width, false};
  ngrams_.admit(slot, tokens, state.limit);
  policy_.survival().admit(slot);
}

void DraftPlanner::plan(StepPlan& plan) {
  plan.budget.times.reserve(max_rows_);  // now, not in the midst of an answer
  widths_.clear();
  spans_.clear();
  for (size_t i = 0; i < plan.spans.size(); ++i) {
    const Span& span = plan.spans[i];
    const Known& known = known_[span.slot];
    if (span.prompt != nullptr || known.ended) continue;
    // A row yields the token after it; the last token of a sequence is never a row.
    const int32_t most = std::min({span.n_rows, known.width, known.limit - known.length - 1});
    const auto chain = static_cast<int32_t>(widths_.size());
    widths_.push_back({span.slot, most, 0, ngrams_.draft(chain, span.slot, most - 1), false, target_.of(known.length),
                       drafter_.of(known.length)});
    spans_.push_back(i);
  }
  const bool whole_blocks = policy_.choose(widths_);
  int32_t rows = 0;
  for (size_t i = 0; i < widths_.size(); ++i) {
    WidthChoice& choice = widths_[i];
    Span& span = plan.spans[spans_[i]];
    if (ngram_use_ == NgramUse::kAlways && !choice.at_hand.empty()) {
      choice.width = choice.most;
      choice.takes_at_hand = true;
    }
    DraftPlan& drafts = span.drafts;
    drafts.width = choice.width;
    drafts.proposes = choice.width > 1 && !choice.takes_at_hand;
    drafts.most = drafts.proposes ? choice.most : choice.width;
    drafts.draft_rows = whole_blocks && drafts.proposes ? choice.most : choice.width;
    rows += drafts.most;
    if (choice.takes_at_hand && choice.width > 1) {
      std::ranges::copy(ngrams_.ids(static_cast<int32_t>(i), choice.width - 1), drafts.ids + 1);
    }
  }
  const bool proposes = std::ranges::any_of(plan.spans, [](const Span& span) { return span.drafts.proposes; });
  policy_.budget(std::span(widths_).first(proposes ? widths_.size() : 0), rows, plan.budget);
  plan.keeps_context = policy_.hopeful();
}

void DraftPlanner::collect(const StepPlan& plan, const StepResult& result) {
  bool decoding_only = true;
  PassLoad verified;
  PassLoad drafted;
  for (size_t i = 0; i < plan.spans.size(); ++i) {
    const Span& span = plan.spans[i];
    const SpanResult& outcome = result.spans[i];
    Known& known = known_[span.slot];
    const int32_t before = std::exchange(known.length, outcome.computed);
    known.ended = known.ended || outcome.end != SpanEnd::kRunning;
    ngrams_.append(span.slot, {outcome.tokens, static_cast<size_t>(outcome.n_tokens)});
    decoding_only = decoding_only && span.prompt == nullptr;
    if (span.prompt != nullptr || outcome.n_rows == 0) continue;
    verified.add(outcome.n_rows, target_.of(before));
    if (outcome.n_draft_rows > 0) drafted.add(outcome.n_draft_rows, drafter_.of(before));
    observe(span.slot, outcome);
  }
  if (!decoding_only) return;
  const StepTimes& times = result.times;
  policy_.costs().observe(verified, drafted, static_cast<double>(times.verify_ns + times.sample_ns),
                          static_cast<double>(times.draft_ns + times.context_ns));
}

// Drafts that were forced, n-gram drafts or not verified say nothing about the proposer.
void DraftPlanner::observe(int32_t slot, const SpanResult& span) {
  if (span.n_forced > 0 || span.n_draft_rows == 0 || span.end != SpanEnd::kRunning || span.cut) return;
  if (span.n_chances == 0) {
    policy_.survival().observe(slot, span.n_drafted, span.n_accepted);
  } else {
    policy_.survival().observe(slot, {span.chances, static_cast<size_t>(span.n_chances)}, span.expected,
                               span.n_accepted);
  }
}

}  // namespace ashlar
