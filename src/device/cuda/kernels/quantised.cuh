// SPDX-License-Identifier: Apache-2.0
#pragma once
// Numbers of 4 and 8 bits to pairs of bf16, as quantised_layout.h says what they are worth.

#include <cuda_fp16.h>

#include "../quantised_layout.h"
#include "device_math.cuh"

namespace ashlar::cuda {

__device__ __forceinline__ uint32_t bits_of(__nv_bfloat162 pair) { return reinterpret_cast<const uint32_t&>(pair); }
__device__ __forceinline__ __nv_bfloat162 pair_of(uint32_t bits) {
  return reinterpret_cast<const __nv_bfloat162&>(bits);
}

/// What a lane knows of a group: scales of outputs lane / 4 and lane / 4 + 8.
template <Packed kFormat>
struct GroupScales;

template <>
struct GroupScales<Packed::kInt4> {
  __nv_bfloat162 scale[2], centre[2];  // each twice
  __device__ __forceinline__ void read(const char* scales, int lane, int group) {
    const uint2 both = *reinterpret_cast<const uint2*>(scales + lane / 4 * 16 + group * 8);
    scale[0] = pair_of(__byte_perm(both.x, 0, 0x1010)), centre[0] = pair_of(__byte_perm(both.x, 0, 0x3232));
    scale[1] = pair_of(__byte_perm(both.y, 0, 0x1010)), centre[1] = pair_of(__byte_perm(both.y, 0, 0x3232));
  }
  /// The integers of pair `pair`, still in their word, which has that pair in its lowest bits.
  __device__ __forceinline__ uint32_t value(uint32_t word, int high) const {
    // From 128 on the steps of bf16 are whole numbers. One instruction, which needs one of the constants in a register.
    uint32_t above_128;
    asm("lop3.b32 %0, %1, 0x000F000F, %2, 0xEA;" : "=r"(above_128) : "r"(word), "r"(0x43004300));
    const __nv_bfloat162 wholes = __hsub2(pair_of(above_128), pair_of(0x43084308));
    return bits_of(__hfma2(wholes, scale[high], centre[high]));
  }
};

template <>
struct GroupScales<Packed::kInt8> {
  float scale[2], start[2];
  __device__ __forceinline__ void read(const char* scales, int lane, int group) {
    const __half2 both = *reinterpret_cast<const __half2*>(scales + lane / 4 * 8 + group * 4);
    const float2 two = __half22float2(both);
    scale[0] = two.x, scale[1] = two.y;
    // Exact: 257 * 128 times 11 bits.
    start[0] = -32896.0F * two.x, start[1] = -32896.0F * two.y;
  }
  /// Bytes 2 at, 2 at + 1 of a word.
  __device__ __forceinline__ uint32_t value(uint32_t word, int at, int high) const {
    // 2^15 plus the byte, as floats.
    const float low = __uint_as_float(__byte_perm(word, 0x47000000, 0x7404 | at * 0x20));
    const float next = __uint_as_float(__byte_perm(word, 0x47000000, 0x7414 | at * 0x20));
    return bits_of(__floats2bfloat162_rn(fmaf(low, scale[high], start[high]), fmaf(next, scale[high], start[high])));
  }
};

/// Numbers have none of their own.
template <>
struct GroupScales<Packed::kE4M3> {
  __device__ __forceinline__ void read(const char*, int, int) {}
  /// The pairs of a word (e4m3_bits), as they are worth.
  __device__ __forceinline__ void values(uint32_t word, uint32_t& low, uint32_t& high) const {
    // As bf16 the bits are worth 2^-120 of that, down to subnormal ones; either product is exact.
    const __nv_bfloat162 factor = pair_of(0x7B807B80);
    const uint32_t others = (word << 4 & 0x80F080F0) | (word >> 4 & 0x07000700);
    low = bits_of(__hmul2(pair_of(word & 0x87F087F0), factor));
    high = bits_of(__hmul2(pair_of(others), factor));
  }
};

/// Sums over 128 inputs, which become part of others with the scales of outputs lane / 4 and lane / 4 + 8.
struct SumScales {
  float scale[2];
  /// From a unit of the first tile of 64 inputs or the second.
  template <Packed kFormat>
  __device__ __forceinline__ void read(const char* unit, int lane, int tile) {
    const float value = reinterpret_cast<const float*>(unit + unit_wholes_bytes(kFormat))[lane / 4];
    if (tile == 0) scale[0] = value;
    if (tile == 1) scale[1] = value;
  }
  /// sums: as the tensor cores leave them, four for each two columns.
  template <int kSums>
  __device__ __forceinline__ void add(const float (&sums)[kSums], float (&to)[kSums]) const {
#pragma unroll
    for (int i = 0; i < kSums; ++i) to[i] = fmaf(scale[i / 2 % 2], sums[i], to[i]);
  }
};

/// One element.
__device__ __forceinline__ float quantised_value(const char* weight, Packed format, int64_t row, int64_t column,
                                                 int64_t k) {
  const QuantisedPlace at = quantised_place(format, row, column, k);
  const auto word = [&] { return *reinterpret_cast<const uint32_t*>(weight + at.whole); };
  if (format == Packed::kE4M3) {
    const uint32_t code = e4m3_code(word(), at.shift);
    const float number = __uint_as_float((code & 0x80U) << 24 | (code & 0x7FU) << 20) * 0x1p120F;
    return number * *reinterpret_cast<const float*>(weight + at.scale);
  }
  if (format == Packed::kInt8) {
    const int whole = static_cast<int>(*reinterpret_cast<const uint8_t*>(weight + at.whole)) - 128;
    const float scale = __half2float(*reinterpret_cast<const __half*>(weight + at.scale));
    return __bfloat162float(__float2bfloat16_rn(static_cast<float>(whole) * scale));
  }
  const auto whole = static_cast<int>(word() >> at.shift & 15);
  const __nv_bfloat162 scales = *reinterpret_cast<const __nv_bfloat162*>(weight + at.scale);
  return __bfloat162float(__hfma(__float2bfloat16_rn(static_cast<float>(whole - 8)), scales.x, scales.y));
}

/// The lane's part of the first operand of the two k16 steps of a group, from its 16 bytes.
template <Packed kFormat>
__device__ __forceinline__ void decode_step(const GroupScales<kFormat>& scales, const uint4& wholes, int group,
                                            int step, uint32_t (&a)[4]) {
  if constexpr (kFormat == Packed::kInt4) {
    const uint32_t word = group == 0 ? (step == 0 ? wholes.x : wholes.y) : (step == 0 ? wholes.z : wholes.w);
#pragma unroll
    for (int pair = 0; pair < 4; ++pair) a[pair] = scales.value(word >> (4 * pair), pair % 2);
    return;
  }
  const uint32_t first = step == 0 ? wholes.x : wholes.z, second = step == 0 ? wholes.y : wholes.w;
  if constexpr (kFormat == Packed::kInt8) {
    a[0] = scales.value(first, 0, 0), a[1] = scales.value(first, 1, 1);
    a[2] = scales.value(second, 0, 0), a[3] = scales.value(second, 1, 1);
  }
  if constexpr (kFormat == Packed::kE4M3) {
    scales.values(first, a[0], a[1]);
    scales.values(second, a[2], a[3]);
  }
}

/// The lane's 16 bytes that have group `group` of a unit.
template <Packed kFormat>
__device__ __forceinline__ uint4 read_wholes(const char* unit, int lane, int group) {
  return *reinterpret_cast<const uint4*>(unit + (kFormat == Packed::kInt4 ? 0 : group * 512) + lane * 16);
}

}  // namespace ashlar::cuda
