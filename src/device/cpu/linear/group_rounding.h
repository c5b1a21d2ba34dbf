#pragma once
// Weights rounded to integers of few bits, a group of neighbours at a time.

#include <cstdint>

#include "base/bf16.h"
#include "device/cpu/isa/kernels.h"

namespace ashlar::cpu {

/// Values as scale * whole (8 bits, |whole| <= 127) or lowest + scale * whole (4 bits, 0 <= whole <= 15).
struct RoundedGroup {
  Float16 scale = {0};
  Float16 lowest = {0};  ///< of 4 bits
  int8_t wholes[kGroup] = {};  ///< zeros beyond the values
};

/// Rounds n <= kGroup values. Values that already lie on such a grid, as those of a file with 4 or 8 bits do, stay
/// where they are, up to the rounding of scale and lowest value to f16, which the scales of such files mostly are; of
/// others the grid is the one of several that is off least in squares. What is not finite counts as 0.
RoundedGroup round_group(const float* values, int32_t n, int32_t bits);

}  // namespace ashlar::cpu
