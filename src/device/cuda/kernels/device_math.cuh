// SPDX-License-Identifier: Apache-2.0
#pragma once
// What several kernels need. Multiplications and additions fuse where fmaf is written and nowhere else (-fmad=false).

#include <cuda_bf16.h>

#include <cstdint>

#include "../kernels.h"
#include "dependent.cuh"

namespace ashlar::cuda {

/// Sum over the warp in a fixed order, the same in every lane.
__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(~0u, value, distance);
  return value;
}

__device__ __forceinline__ float warp_max(float value) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) value = fmaxf(value, __shfl_xor_sync(~0u, value, distance));
  return value;
}

__device__ __forceinline__ float sigmoid(float x) { return 1.0F / (1.0F + expf(-x)); }
/// As Ops::gelu_gate has it.
__device__ __forceinline__ float gelu(float x) { return x * sigmoid(x * fmaf(x * x, 0.0713548162F, 1.59576912F)); }
__device__ __forceinline__ float gated(float gate, float up) { return gate / (1.0F + expf(-gate)) * up; }

__device__ __forceinline__ float load(const void* data, int64_t at, bool is_f32) {
  return is_f32 ? static_cast<const float*>(data)[at] : __bfloat162float(static_cast<const __nv_bfloat16*>(data)[at]);
}

__device__ __forceinline__ void store(void* data, int64_t at, bool is_f32, float value) {
  if (is_f32) {
    static_cast<float*>(data)[at] = value;
  } else {
    static_cast<__nv_bfloat16*>(data)[at] = __float2bfloat16_rn(value);
  }
}

/// Where a sum goes. `column` is one of call.width.
__device__ __forceinline__ void finish(const ProductCall& call, int64_t row, int32_t column, float y, float up) {
  const int64_t at = row * call.out_stride + column;
  if (call.finish == Finish::kFloat) {
    static_cast<float*>(call.out)[at] = y;
    return;
  }
  auto* const to = static_cast<__nv_bfloat16*>(call.out) + at;
  if (call.finish == Finish::kGated) {
    *to = __float2bfloat16_rn(gated(y, up));
  } else if (call.finish == Finish::kAdd) {
    *to = __float2bfloat16_rn(__bfloat162float(*to) + __bfloat162float(__float2bfloat16_rn(y)));
  } else {
    *to = __float2bfloat16_rn(y);
  }
}

/// Place of an element in a packed weight of `k` padded inputs: tiles of 64 x 64, whose rows of 128 bytes have their
/// 16-byte pieces permuted, so that a warp that reads 8 rows meets all banks.
__device__ __forceinline__ int64_t packed_place(int64_t row, int64_t column, int64_t k) {
  const int64_t tile = row / 64 * (k / 64) + column / 64;
  return tile * 4096 + row % 64 * 64 + ((column % 64 / 8) ^ (row % 8)) * 8 + column % 8;
}

inline unsigned blocks_for(int64_t items, int64_t per_block) {
  return static_cast<unsigned>((items + per_block - 1) / per_block);
}

inline unsigned rows_of(const Matrix& matrix) { return static_cast<unsigned>(matrix.rows); }

/// Over the four lanes that share a row of a product of the tensor cores.
__device__ __forceinline__ float quad_max(float value) {
  value = fmaxf(value, __shfl_xor_sync(~0u, value, 1));
  return fmaxf(value, __shfl_xor_sync(~0u, value, 2));
}

__device__ __forceinline__ float quad_sum(float value) {
  value += __shfl_xor_sync(~0u, value, 1);
  return value + __shfl_xor_sync(~0u, value, 2);
}

}  // namespace ashlar::cuda
