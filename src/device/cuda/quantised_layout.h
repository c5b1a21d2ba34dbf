// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where the numbers of a weight of 4 or 8 bits lie, for the host that packs and the kernels that read.
//
// A unit is 16 outputs x 64 inputs; four units, one under the other, are a tile, and tiles lie as those of bf16:
// [n / 64][k / 64]. A unit begins with its integers in the order in which the lanes of a warp have them as the first
// operand of m16n8k16: a lane's integers are 16 bytes that lie together, of 64 inputs (4 bits) or 32 (8 bits). The
// scales of groups of 32 inputs follow.
//
// Of 4 bits: value = bf16((whole - 8) * scale + centre), scale and centre bf16, a fused multiply-add rounded once. Of 8
// bits: value = bf16(whole * scale), scale f16, the integer stored with 128 added.

#include <cstdint>

#include "kernels.h"

#ifdef __CUDACC__
#define ASHLAR_EVERYWHERE __host__ __device__ constexpr
#else
#define ASHLAR_EVERYWHERE constexpr
#endif

namespace ashlar::cuda {

inline constexpr int32_t kUnitRows = 16;
inline constexpr int32_t kUnitsOfTile = kTile / kUnitRows;

ASHLAR_EVERYWHERE int32_t unit_wholes_bytes(int32_t bits) { return kUnitRows * kTile * bits / 8; }
ASHLAR_EVERYWHERE int32_t unit_bytes(int32_t bits) {
  return unit_wholes_bytes(bits) + kUnitRows * 2 * (bits == 4 ? 4 : 2);
}

/// Of an element of a weight with `k` padded inputs: bytes from the weight's begin.
struct QuantisedPlace {
  int64_t whole;  ///< the 32-bit word (4 bits) or the byte (8 bits) that has the integer
  int32_t shift;  ///< of 4 bits: where in the word
  int64_t scale;  ///< f16; of 4 bits bf16, the centre after it
};

ASHLAR_EVERYWHERE QuantisedPlace quantised_place(int32_t bits, int64_t row, int64_t column, int64_t k) {
  const int64_t unit = (row / kTile * (k / kTile) + column / kTile) * kUnitsOfTile + row % kTile / kUnitRows;
  const int64_t base = unit * unit_bytes(bits), scales = base + unit_wholes_bytes(bits);
  const auto r = static_cast<int32_t>(row % kUnitRows), c = static_cast<int32_t>(column % kTile);
  const int32_t lane = r % 8 * 4 + c % 8 / 2, pair = r / 8 + c % 16 / 8 * 2, group = c / 32;
  if (bits == 4) {
    return {base + lane * 16 + c / 16 * 4, 4 * pair + 16 * (c % 2), scales + r % 8 * 16 + group * 8 + r / 8 * 4};
  }
  return {base + group * 512 + lane * 16 + c / 16 % 2 * 8 + pair / 2 * 4 + pair % 2 * 2 + c % 2, 0,
          scales + r % 8 * 8 + group * 4 + r / 8 * 2};
}

}  // namespace ashlar::cuda
