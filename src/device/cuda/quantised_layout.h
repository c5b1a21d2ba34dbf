// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where the numbers of a weight of 4 or 8 bits lie, for the host that packs and the kernels that read.
//
// A unit is 16 outputs x 64 inputs; four units, one under the other, are a tile, and tiles lie as those of bf16:
// [n / 64][k / 64]. A unit begins with its numbers in the order in which the lanes of a warp have them as the first
// operand of m16n8k16: a lane's numbers are 16 bytes that lie together, of 64 inputs (4 bits) or 32 (8 bits). Scales
// follow.
//
// Of 4 bits: value = bf16((whole - 8) * scale + centre), scale and centre bf16 for each 32 inputs, a fused multiply-add
// rounded once. Of 8 bits: value = bf16(whole * scale), scale f16 for each 32 inputs, the integer stored with 128
// added. Of E4M3: value = number * scale, which is never made; scales are fp32 for each 128 inputs, those of the first
// eight outputs in the first of the two tiles, the others in the second. The bits of four numbers lie in a word so that
// few instructions make bf16 of them: e4m3_bits().

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

/// Numbers of 8 or 4 bits with scales.
ASHLAR_EVERYWHERE bool is_quantised(Packed format) { return format != Packed::kF32 && format != Packed::kBf16; }
/// Numbers are multiplied without their scales, and sums over kInputPad inputs by these. Of others a product is that of
/// their values in bf16.
ASHLAR_EVERYWHERE bool scales_sums(Packed format) { return format == Packed::kE4M3; }

ASHLAR_EVERYWHERE int32_t unit_wholes_bytes(Packed format) {
  return kUnitRows * kTile / (format == Packed::kInt4 ? 2 : 1);
}
ASHLAR_EVERYWHERE int32_t unit_bytes(Packed format) {
  const int32_t of_row = format == Packed::kInt4 ? 8 : format == Packed::kInt8 ? 4 : 2;  // scales and centres
  return unit_wholes_bytes(format) + kUnitRows * of_row;
}

/// Of an element of a weight with `k` padded inputs: bytes from the weight's begin.
struct QuantisedPlace {
  int64_t whole;  ///< of 8 bits the byte that has the integer, otherwise the 32-bit word that has the number
  int32_t shift;  ///< of 4 bits: where in the word; of E4M3 the number of e4m3_bits()
  int64_t scale;  ///< f16; of 4 bits bf16, the centre after it; of E4M3 fp32
};

ASHLAR_EVERYWHERE QuantisedPlace quantised_place(Packed format, int64_t row, int64_t column, int64_t k) {
  const int64_t unit = (row / kTile * (k / kTile) + column / kTile) * kUnitsOfTile + row % kTile / kUnitRows;
  const int64_t base = unit * unit_bytes(format), scales = base + unit_wholes_bytes(format);
  const auto r = static_cast<int32_t>(row % kUnitRows), c = static_cast<int32_t>(column % kTile);
  const int32_t lane = r % 8 * 4 + c % 8 / 2, pair = r / 8 + c % 16 / 8 * 2, group = c / 32;
  if (format == Packed::kInt4) {
    return {base + lane * 16 + c / 16 * 4, 4 * pair + 16 * (c % 2), scales + r % 8 * 16 + group * 8 + r / 8 * 4};
  }
  const int64_t word = base + group * 512 + lane * 16 + c / 16 % 2 * 8 + pair / 2 * 4;
  if (format == Packed::kInt8) return {word + pair % 2 * 2 + c % 2, 0, scales + r % 8 * 8 + group * 4 + r / 8 * 2};
  const int64_t tiles_on = r / 8 - column / kTile % 2;  // to the tile that has the scale
  return {word, pair % 2 * 2 + c % 2, scales + tiles_on * kUnitsOfTile * unit_bytes(format) + r % 8 * 4};
}

/// The bits of code `i` of a word. Of the first two: sign 15, exponent and mantissa 10 to 4, as a bf16 has them. Of the
/// others: sign 11, exponent 14 to 12 and 3, mantissa 2 to 0. Codes 1 and 3 lie 16 bits above 0 and 2.
ASHLAR_EVERYWHERE uint32_t e4m3_bits(uint32_t code, int32_t i) {
  const uint32_t first = (code & 0x80U) << 8 | (code & 0x7FU) << 4;
  const uint32_t second = (code & 0x80U) << 4 | (code & 0x70U) << 8 | (code & 0x0FU);
  return (i < 2 ? first : second) << 16 * (i % 2);
}
ASHLAR_EVERYWHERE uint32_t e4m3_code(uint32_t word, int32_t i) {
  const uint32_t bits = word >> 16 * (i % 2) & 0xFFFFU;
  return i < 2 ? (bits >> 8 & 0x80U) | (bits >> 4 & 0x7FU) : (bits >> 4 & 0x80U) | (bits >> 8 & 0x70U) | (bits & 0x0FU);
}

}  // namespace ashlar::cuda
