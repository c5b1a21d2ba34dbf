// SPDX-License-Identifier: Apache-2.0
#include "decode/policy/survival.h"

#include <algorithm>

namespace ashlar {
namespace {

constexpr double kFirstGuess = 0.7;    // chance of each draft, given the ones before, before anything was seen
constexpr double kSlotRate = 0.05;     // a sequence's estimate forgets over about twenty passes: fewer say little
constexpr double kCommonRate = 0.005;  // the common estimate over about two hundred
constexpr double kMaxOptimistic = 0.97;
constexpr double kMinTrust = 0.25;  // times a proposer's chances, what is believed of them
constexpr double kMaxTrust = 1.5;
constexpr double kForgiveness = 1.0 / 16;  // a plain pass moves a sequence's estimate this far towards the common one

}  // namespace

double Survival::trust() const { return expected > 0 ? std::clamp(accepted / expected, kMinTrust, kMaxTrust) : 1.0; }

// Positions that were verified move towards what happened; those beyond continue the last ratio.
void Survival::observe(int32_t drafted, int32_t n_accepted, double rate) {
  for (int32_t k = 1; k <= drafted; ++k) chance[k] += rate * ((n_accepted >= k ? 1.0 : 0.0) - chance[k]);
  const double ratio = std::min(chance[drafted] / std::max(chance[drafted - 1], 1e-6), kMaxOptimistic);
  for (int32_t k = drafted + 1; k < kMaxWidth; ++k) chance[k] = chance[k - 1] * ratio;
}

// A proposer knows which of its drafts are better than others, and by how much; how good they are on the whole shows in
// what became of them.
void Survival::observe(std::span<const float> chances, double n_expected, double n_accepted, double rate) {
  expected += rate * (n_expected - expected);
  accepted += rate * (n_accepted - accepted);
  for (int32_t k = 1; k < kMaxWidth; ++k) {
    const auto at = static_cast<size_t>(k) - 1;
    said[k] += rate * ((at < chances.size() ? chances[at] : 0.0) - said[k]);
    chance[k] = std::min(trust() * said[k], 1.0);
  }
}

void Survival::move_towards(const Survival& other, double rate) {
  for (int32_t k = 1; k < kMaxWidth; ++k) {
    chance[k] += rate * (other.chance[k] - chance[k]);
    said[k] += rate * (other.said[k] - said[k]);
  }
  accepted += rate * (other.accepted - accepted);
  expected += rate * (other.expected - expected);
}

SurvivalEstimates::SurvivalEstimates(int32_t max_slots) : slots_(static_cast<size_t>(max_slots)) {
  double chance = 1.0;
  for (size_t k = 0; k < common_.chance.size(); ++k) {
    common_.chance[k] = common_.said[k] = chance;
    chance *= kFirstGuess;
  }
}

void SurvivalEstimates::begin_anew(Slot& slot) const {
  slot.survival = common_;
  slot.passes = std::min(kGuessedPasses + verified_passes_, 1 / kSlotRate);
}

bool SurvivalEstimates::begin(int32_t slot) {
  Slot& own = slots_[slot];
  if (!own.admitted) return false;
  own.admitted = false;
  begin_anew(own);
  return true;
}

void SurvivalEstimates::forgive(int32_t slot) { slots_[slot].survival.move_towards(common_, kForgiveness); }

double SurvivalEstimates::next_common_rate() {
  return std::max(kCommonRate, 1.0 / (kGuessedPasses + ++verified_passes_));
}

// An estimate that began as a guess yields to what is seen as fast as the guess itself, and takes in what others
// showed.
double SurvivalEstimates::next_rate(Slot& slot) {
  if (slot.passes < std::min(kGuessedPasses + verified_passes_, 1 / kSlotRate)) begin_anew(slot);
  return std::max(kSlotRate, 1.0 / ++slot.passes);
}

void SurvivalEstimates::observe(int32_t slot, int32_t drafted, int32_t accepted) {
  if (drafted == 0) return;
  begin(slot);
  Slot& own = slots_[slot];
  own.survival.observe(drafted, accepted, next_rate(own));
  common_.observe(drafted, accepted, next_common_rate());
}

void SurvivalEstimates::observe(int32_t slot, std::span<const float> chances, double expected, int32_t accepted) {
  begin(slot);
  Slot& own = slots_[slot];
  own.survival.observe(chances, expected, accepted, next_rate(own));
  common_.observe(chances, expected, accepted, next_common_rate());
}

}  // namespace ashlar
