// SPDX-License-Identifier: Apache-2.0
#pragma once
// Weights rounded to integers of few bits, a group of neighbours at a time, and which weights are.

#include <cstdint>

#include "base/bf16.h"
#include "device/ops.h"

namespace ashlar {

/// Neighbours along k that share a scale.
inline constexpr int32_t kRoundedTogether = 32;

/// Values as scale * whole (8 bits, |whole| <= 127) or lowest + scale * whole (4 bits, 0 <= whole <= 15).
struct RoundedGroup {
  Float16 scale = {0};
  Float16 lowest = {0};                  ///< of 4 bits
  int8_t wholes[kRoundedTogether] = {};  ///< zeros beyond the values
};

/// Rounds n <= kRoundedTogether values. Values that already lie on such a grid, as those of a file with 4 or 8 bits do,
/// stay where they are, up to the rounding of scale and lowest value to f16, which the scales of such files mostly are;
/// of others the grid is the one of several that is off least in squares. What is not finite counts as 0.
RoundedGroup round_group(const float* values, int32_t n, int32_t bits);

/// What a device whose products are faster by fewer bits keeps weights in that are stored as `stored`
/// (WeightSource::numbers).
Numbers kept_numbers(KeptWeights kept, Numbers stored, Products products);

}  // namespace ashlar
