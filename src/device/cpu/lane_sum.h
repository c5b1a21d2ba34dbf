// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace ashlar::cpu {

/// The sum of term(i) for i in [0, n), in lanes that are added in a fixed order, which a compiler makes vectors of.
template <class Term>
float lane_sum(int32_t n, const Term& term) {
  constexpr int32_t kLanes = 16;
  float sums[kLanes] = {};
  int32_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int32_t lane = 0; lane < kLanes; ++lane) sums[lane] += term(i + lane);
  }
  for (; i < n; ++i) sums[i % kLanes] += term(i);
  for (int32_t half = kLanes / 2; half > 0; half /= 2) {
    for (int32_t lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
  }
  return sums[0];
}

}  // namespace ashlar::cpu
