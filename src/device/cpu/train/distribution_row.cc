// SPDX-License-Identifier: Apache-2.0
#include "device/cpu/train/distribution_row.h"

#include <cmath>

#include "base/row_math.h"

namespace ashlar::cpu {

TokenLoss distribution_row(const TrainKernels& kernels, DistributionLoss loss, int32_t n, const DistributionRow& row) {
  const int32_t best = argmax(row.logits, n);
  const float highest = row.logits[best];
  const float highest_of_target = kernels.highest(row.target, n);
  // ln p - ln q is the difference of the logits but for a constant.
  kernels.combine(1, row.target, -1, row.logits, n, row.room);
  const float sum = kernels.exponentials(row.logits, n, highest);
  const float sum_of_target = kernels.exponentials(row.target, n, highest_of_target);
  kernels.scale(row.logits, n, 1 / sum);
  kernels.scale(row.target, n, 1 / sum_of_target);
  const double constant = highest_of_target - highest + std::log(static_cast<double>(sum_of_target) / sum);
  double overlap = 0;
  double below = 0;
  for (int32_t i = 0; i < n; ++i) {
    const bool is_below = row.logits[i] < row.target[i];
    overlap += is_below ? row.logits[i] : row.target[i];
    if (is_below) below += row.logits[i];
  }
  const double divergence = kernels.dot(row.target, row.room, n) - constant;
  const DistributionTerms terms = distribution_terms(loss, divergence, overlap);
  const auto of_divergence = static_cast<float>(terms.of_divergence);
  const auto of_overlap = static_cast<float>(terms.of_overlap);
  for (int32_t i = 0; i < n; ++i) {
    const float p = row.target[i];
    const float q = row.logits[i];
    const float share = (q < p ? 1.0F : 0.0F) - static_cast<float>(below);
    row.logits[i] = of_divergence * (q - p) + of_overlap * q * share;
  }
  return {static_cast<float>(terms.loss), static_cast<float>(overlap), best};
}

}  // namespace ashlar::cpu
