// SPDX-License-Identifier: Apache-2.0
#pragma once
// The host's part of drafting: which sequences draft in a step, from where, and how much of it is verified. It knows
// sequences by what results said, and decides nothing that a token depends on.

#include <cstdint>
#include <span>
#include <vector>

#include "decode/policy/width_policy.h"
#include "decode/propose/ngram_drafts.h"
#include "decode/slot_table.h"
#include "decode/step.h"

namespace ashlar {

class DraftPlanner {
 public:
  /// `proposer`: what drafts there are but n-gram drafts. target, drafter: what their rows see.
  DraftPlanner(int32_t max_width, int32_t max_slots, int32_t max_spans, ProposerRows proposer, NgramUse ngrams,
               KeysSeen target = KeysSeen(), KeysSeen drafter = KeysSeen());

  WidthPolicy& policy() { return policy_; }
  /// A sequence begins in the slot. Called while no step uses it.
  void admit(int32_t slot, const Slot& state, std::span<const int32_t> tokens);
  /// Fills Span::drafts, the budget and keeps_context.
  void plan(StepPlan& plan);
  void collect(const StepPlan& plan, const StepResult& result);

 private:
  struct Known {
    int32_t length = 0;  // tokens whose K and V are in the cache, at least
    int32_t limit = 0;
    int32_t width = 1;
    bool ended = false;
  };
  void observe(int32_t slot, const SpanResult& span);

  const NgramUse ngram_use_;
  const size_t max_rows_;  // of a step
  const KeysSeen target_, drafter_;
  WidthPolicy policy_;
  NgramDrafts ngrams_;
  std::vector<Known> known_;         // per slot
  std::vector<WidthChoice> widths_;  // of the step's chains
  std::vector<size_t> spans_;        // as widths_
};

}  // namespace ashlar
