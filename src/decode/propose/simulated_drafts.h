// SPDX-License-Identifier: Apache-2.0
#pragma once
// Drafts of a wished quality, to time a drafter that does not exist yet or weights that mean nothing: the answers are
// known beforehand, and drafts are right as often as asked for. Drafter and target work as always, and the target
// still checks every draft, so tokens are those of plain decoding.

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "decode/propose/proposer.h"

namespace ashlar {

/// What answers will be, and how often drafts are right. Any thread.
class SimulatedDrafts {
 public:
  /// `accept_length`: tokens of a verify step on average where it has `width` rows, from 1 (no draft is right) to
  /// `width` (all are). Each draft is right with the same chance, given that those before it are.
  /// Throws Error("bench", ...) for another length.
  SimulatedDrafts(double accept_length, int32_t width);

  /// The greedy answer to a prompt, or its beginning.
  void add(std::vector<int32_t> prompt, std::vector<int32_t> answer);
  /// That of the prompt that `tokens` begin with, of `prompt_length` tokens; null if it is not known. It stays.
  const std::vector<int32_t>* answer_to(std::span<const int32_t> tokens, int32_t prompt_length) const;

  /// Right drafts of step `step` of a sequence, at most width - 1: their mean over steps approaches the length asked
  /// for as fast as evenly spread numbers do.
  int32_t right_drafts(int64_t step) const;

 private:
  std::vector<double> chances_;  // [width - 1]: the chance that draft k and all before it are right
  mutable std::mutex mutex_;
  std::map<std::vector<int32_t>, std::vector<int32_t>> answers_;
};

/// A proposer whose drafts are replaced after it has made them. They are chains: what a tree would cost or gain does
/// not show.
std::unique_ptr<Proposer> simulate_drafts(std::unique_ptr<Proposer> proposer,
                                          std::shared_ptr<const SimulatedDrafts> simulated);

}  // namespace ashlar
