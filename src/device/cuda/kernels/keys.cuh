// SPDX-License-Identifier: Apache-2.0
#pragma once
// Columns of a row of logits in the order in which they are chosen, as numbers.

#include <math_constants.h>

#include "device_math.cuh"

namespace ashlar::cuda {

/// Orders (value, column) as a number: the higher value first, of equals the lower column. 0: nothing.
__device__ __forceinline__ uint64_t key_of(float value, int32_t column) {
  if (!(value > -CUDART_INF_F)) return 0;
  value += 0.0F;  // minus zero equals zero
  const uint32_t bits = __float_as_uint(value);
  const uint32_t ordered = (bits >> 31) != 0 ? ~bits : bits | 0x80000000U;
  return (uint64_t{ordered} << 32) | static_cast<uint32_t>(~column);
}

__device__ __forceinline__ int32_t column_of(uint64_t key) { return static_cast<int32_t>(~static_cast<uint32_t>(key)); }

__device__ __forceinline__ float value_of(uint64_t key) {
  const auto ordered = static_cast<uint32_t>(key >> 32);
  return __uint_as_float((ordered >> 31) != 0 ? ordered & 0x7FFFFFFFU : ~ordered);
}

__device__ __forceinline__ uint64_t max_of(uint64_t a, uint64_t b) { return a > b ? a : b; }

__device__ __forceinline__ uint64_t warp_highest(uint64_t key) {
  for (int distance = 16; distance > 0; distance /= 2) {
    key = max_of(key, __shfl_xor_sync(~0u, static_cast<unsigned long long>(key), distance));
  }
  return key;
}

}  // namespace ashlar::cuda
