// SPDX-License-Identifier: Apache-2.0
#pragma once
// How many drafts to verify. A wide pass costs more, and how much more depends on the machine and on the contexts; how
// many drafts survive depends on the text. The policy picks the drafts of all sequences of a step that give the most
// expected tokens per unit of time. It cannot change a token, only when it comes.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "decode/policy/row_budget.h"
#include "decode/policy/step_cost.h"
#include "decode/policy/survival.h"

namespace ashlar {

/// How wide a sequence's pass may be and shall be.
struct WidthChoice {
  int32_t slot = 0;
  int32_t width = 1;  ///< in: the most; out: the choice
  int32_t most = 0;   ///< out: the most
  /// Drafts that need no proposer, where there are some: chances that the first 1, 2, ... of them are all accepted.
  std::span<const float> at_hand = {};
  bool takes_at_hand = false;  ///< out: these instead of the proposer's
  /// Keys that a row of the target's pass sees, and one of the proposer's.
  double keys = 0, draft_keys = 0;
};

/// Rows of a sequence in the proposer's pass.
enum class ProposerRows : uint8_t {
  kNone,      ///< there are no other drafts than those at hand
  kAsWanted,  ///< one for each draft and one for the last token, or more if choose() says so
  kAll        ///< as many as it may have, however few of its drafts are wanted
};

class WidthPolicy {
 public:
  /// Every pass is as wide as it may be until costs are known.
  WidthPolicy(int32_t max_width, int32_t max_slots, ProposerRows proposer = ProposerRows::kAsWanted);

  /// Known costs turn the policy on.
  StepCosts& costs() { return costs_; }
  SurvivalEstimates& survival() { return survival_; }

  /// Chooses the widths of all sequences that decode in this step, each at most what it may have. True if the proposer
  /// shall fill blocks as wide as they may be all the same, since that costs next to nothing.
  bool choose(std::span<WidthChoice> sequences);
  /// What rows cost in the step of the sequences whose widths choose() chose last, up to `max_rows` of them.
  void budget(std::span<const WidthChoice> sequences, int32_t max_rows, RowBudget& budget) const;
  /// False while the sequences that decode together are such, and have been for a while, that not even drafts much
  /// better than the common ones would pay: then keeping the drafter informed is not worth its price.
  bool hopeful() const { return !gave_up_; }

 private:
  static constexpr int32_t kGiveUpAfter = 32;  // steps
  // Steps of hope until it is back: those of the few sequences that are left where many end together are fewer.
  static constexpr int32_t kHopeAfter = 8;
  static constexpr int32_t kFirstTrial = 512;

  struct Draft {
    double chance;  // that it is accepted with all before it
    double worth;   // that, less what its context takes
    int32_t sequence;
    int32_t index;  // in its chain, from 1
  };
  // When to find out again what passes without drafts take in a row.
  struct Trial {
    int32_t interval = kFirstTrial;
    int32_t left = kFirstTrial;  // steps with drafts until then
  };

  void take_hope(bool hope);
  bool proposes() const { return proposer_ != ProposerRows::kNone; }
  /// For `drafts` of a sequence that may have `most` rows.
  int32_t rows_of_proposer(int32_t drafts, int32_t most) const {
    return proposer_ == ProposerRows::kAll ? most : drafts + 1;
  }
  bool good_drafts_would_pay(std::span<const WidthChoice> sequences) const;
  bool whole_blocks_are_cheap(std::span<const WidthChoice> sequences) const;
  bool prefers_at_hand(const WidthChoice& sequence, double n) const;
  void list_drafts(std::span<WidthChoice> sequences, bool proposes);
  size_t best_number(std::span<const WidthChoice> sequences, double& rate) const;
  bool choose_best(std::span<WidthChoice> sequences);
  void count_towards_trial(size_t n);
  int32_t try_again(const WidthChoice& sequence, bool is_new);

  int32_t max_width_;
  ProposerRows proposer_;
  StepCosts costs_;
  SurvivalEstimates survival_;
  int32_t hopeless_steps_ = 0;
  bool gave_up_ = false;          // and hope is not back
  int32_t trial_steps_ = 0;       // left of a trial
  std::array<Trial, 10> trials_;  // [i]: of steps of 2^(i-1) + 1 to 2^i sequences
  double gain_ = 1;               // expected tokens per time, times those of plain passes, slowly moving
  double probe_credit_ = 0;       // time that may be spent on finding out whether drafts have become better
  // Of this step.
  PassLoad plain_;         // without drafts
  double plain_time_ = 0;  // that, after others without
  double pace_ = 0;        // tokens per time in the long run, not in a step of many tokens
  double best_rate_ = 0;   // those of the choice
  std::vector<Draft> drafts_;
  std::vector<int32_t> chosen_;  // drafts of each sequence
};

}  // namespace ashlar
