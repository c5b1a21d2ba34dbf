// SPDX-License-Identifier: Apache-2.0
#pragma once
// What is worth knowing of one row of logits, so that the row itself need not be kept.

#include <cstdint>

namespace ashlar {

struct RowStatistics {
  int32_t best = 0;    ///< the most likely id, the lowest on a tie
  int32_t second = 0;  ///< the next one; `best` if there is no other
  float p_best = 0;    ///< probabilities among the whole row, temperature 1
  float p_second = 0;
  float log_sum = 0;  ///< log of the sum of exp(logits)
  float entropy = 0;  ///< nats
};

/// What RowFold finds in one tile, for devices that find it where the logits lie: as top_two() and exp_moments() of
/// base/row_math.h give it, bit for bit.
struct TileMoments {
  int32_t best = -1, second = -1;  ///< columns; -1: there is none
  float best_logit = 0, second_logit = 0;
  float sum = 0;       ///< of e = exp(logit - best_logit)
  float weighted = 0;  ///< of e * (logit - best_logit) / ln 2
};

/// Gathers the statistics of a row tile by tile, from the first to the last. The result depends on the tiles' borders
/// by rounding, so every device cuts rows alike: at multiples of kTile.
class RowFold {
 public:
  static constexpr int32_t kTile = 512;

  RowFold() = default;
  /// Of one tile: logits[i] belongs to id first + i. Entries of minus infinity take no part, nor what is not a number.
  RowFold(const float* logits, int32_t first, int32_t n);
  explicit RowFold(const TileMoments& tile);
  /// Appends what comes after.
  void add(const RowFold& next);
  RowStatistics finish() const;

 private:
  void offer(int32_t id, float logit);

  int32_t best_ = -1, second_ = -1;
  float best_logit_ = 0, second_logit_ = 0;
  double sum_ = 0;       // of exp(logit - best_logit_)
  double weighted_ = 0;  // of exp(logit - best_logit_) * (logit - best_logit_)
};

/// Of one row of logits [n].
RowStatistics row_statistics(const float* logits, int32_t n);

}  // namespace ashlar
