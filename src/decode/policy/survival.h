// SPDX-License-Identifier: Apache-2.0
#pragma once
// How likely drafts are to be accepted: of each sequence, and of all that were seen.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "decode/step.h"

namespace ashlar {

/// What is known of one sequence's drafts.
struct Survival {
  /// [k]: that the k-th draft is accepted; of a chain, that at least k are. [0] is 1.
  std::array<double, kMaxWidth> chance{};
  // Of proposers that say what they think of their drafts: that for the k-th, the drafts they expect to be accepted,
  // and those that are.
  std::array<double, kMaxWidth> said{};
  double expected = 1.0, accepted = 1.0;

  /// Accepted drafts for each that the proposer expects.
  double trust() const;
  void observe(int32_t drafted, int32_t accepted, double rate);
  void observe(std::span<const float> chances, double expected, double accepted, double rate);
  void move_towards(const Survival& other, double rate);
};

class SurvivalEstimates {
 public:
  explicit SurvivalEstimates(int32_t max_slots);

  /// Forgets what the slot's last sequence was like. The one call that may come while others work on other slots.
  void admit(int32_t slot) { slots_[slot].admitted = true; }
  const Survival& common() const { return common_; }
  /// Whether the common estimate is still more guessed than seen.
  bool guesses() const { return verified_passes_ < kGuessedPasses; }
  const Survival& of(int32_t slot) const { return slots_[slot].admitted ? common_ : slots_[slot].survival; }
  /// True the first time that a sequence is asked about, which begins with the common estimate.
  bool begin(int32_t slot);
  /// A pass in which the sequence did not draft: perhaps it was bad luck, of a run of refused drafts or of one passage.
  void forgive(int32_t slot);

  /// A pass that verified `drafted` drafts and accepted `accepted` of them, and that did not end the sequence.
  void observe(int32_t slot, int32_t drafted, int32_t accepted);
  /// The same where the proposer says what it thinks: chances[k] of the k + 1st likeliest draft, `expected`: the sum
  /// over those that were verified.
  void observe(int32_t slot, std::span<const float> chances, double expected, int32_t accepted);

 private:
  struct Slot {
    Survival survival;
    bool admitted = true;  // and nothing else is known: the common estimate counts
    double passes = 0;     // that the estimate counts for
  };
  static constexpr double kGuessedPasses = 8;  // what the first guess counts for

  double next_common_rate();
  double next_rate(Slot& slot);
  void begin_anew(Slot& slot) const;

  Survival common_;             // of all sequences, slowly moving
  double verified_passes_ = 0;  // passes that moved it
  std::vector<Slot> slots_;
};

}  // namespace ashlar
