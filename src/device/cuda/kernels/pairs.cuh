// SPDX-License-Identifier: Apache-2.0
#pragma once
// Pairs of bf16 in 32 bits, as the tensor cores take and give them.

#include <cuda_bf16.h>

#include <cstdint>

namespace ashlar::cuda {

__device__ __forceinline__ uint32_t pack_bf16(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return reinterpret_cast<const uint32_t&>(pair);
}
/// Sums of two pairs, rounded.
__device__ __forceinline__ uint32_t add_bf16(uint32_t a, uint32_t b) {
  const __nv_bfloat162 sum =
      __hadd2(reinterpret_cast<const __nv_bfloat162&>(a), reinterpret_cast<const __nv_bfloat162&>(b));
  return reinterpret_cast<const uint32_t&>(sum);
}
__device__ __forceinline__ float2 unpack_bf16(uint32_t pair) {
  return __bfloat1622float2(reinterpret_cast<const __nv_bfloat162&>(pair));
}

}  // namespace ashlar::cuda
