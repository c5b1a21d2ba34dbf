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
__device__ __forceinline__ float2 unpack_bf16(uint32_t pair) {
  return __bfloat1622float2(reinterpret_cast<const __nv_bfloat162&>(pair));
}

}  // namespace ashlar::cuda
