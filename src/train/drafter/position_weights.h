// SPDX-License-Identifier: Apache-2.0
#pragma once
// What each slot's loss counts, and what a batch's slots say about drafting.

#include <cstdint>
#include <span>
#include <vector>

#include "train/drafter_trainer.h"

namespace ashlar {

/// exp(-(slot - 1) / gamma).
double decay_weight(int32_t slot, double gamma);

/// D-PACE: slot k counts the sum over j >= k of the products over i <= j of s_i = (1 - alpha) probability_i + alpha.
/// Rows without a label count as 1 in the products and as 0 in the sums; lost rows, whose token is never drafted, are
/// of probability 0. Per labelled row, in order; label_rows and lost_rows as in BlockBatch.
std::vector<float> dpace_weights(std::span<const int32_t> label_rows, std::span<const TokenLoss> losses, int32_t block,
                                 double alpha, std::span<const int32_t> lost_rows = {});

/// Counts of right drafts over many blocks.
class DraftCounts {
 public:
  explicit DraftCounts(int32_t block) : slots_(static_cast<size_t>(block)) {}
  /// Rows and labels as in BlockBatch.
  void add(std::span<const int32_t> label_rows, std::span<const int32_t> labels, std::span<const TokenLoss> losses,
           std::span<const int32_t> lost_rows = {});
  void write(TrainReport& report) const;
  /// The counts as numbers to be added up, and back.
  void append_to(std::vector<double>& figures) const;
  void take(std::span<const double> figures);

 private:
  struct Slot {
    int64_t labels = 0;
    int64_t right = 0;
    int64_t reached = 0;   ///< labels whose block was right in every slot before
    int64_t accepted = 0;  ///< those of them that are right
  };
  std::vector<Slot> slots_;
};

}  // namespace ashlar
