// SPDX-License-Identifier: Apache-2.0
#pragma once
// What rows of blocks see and keep, for all kernels of their attention.

#include "train_kernels.h"

namespace ashlar::cuda {

/// Whether row `r` of a block reaches the context row at place `t` of its document.
__device__ __forceinline__ bool is_in_window(const TrainAttention& call, const TrainBlock& block, int32_t r,
                                             int32_t t) {
  return call.window == 0 || block.n + r - t < call.window;
}

/// A place of key `o` of a block, next to places of its document's context, which are not negative.
__device__ __forceinline__ int32_t own_place(int32_t o) { return -1 - o; }

/// Whether row `r` of a block sees key `o` of the same block.
__device__ __forceinline__ bool sees_own(const TrainAttention& call, int32_t r, int32_t o) {
  return !call.causal || o <= r;
}

/// Whether row `r` of a block sees key `key` of a tile that begins at `place`.
__device__ __forceinline__ bool sees_key(const TrainAttention& call, const TrainBlock& block, int32_t r, int32_t place,
                                         int32_t key) {
  return place < 0 ? sees_own(call, r, own_place(place) + key) : is_in_window(call, block, r, place + key);
}

/// The logarithm of the sum of a query's weights.
__device__ __forceinline__ float& log_sum(const TrainAttention& call, int64_t row, int32_t head) {
  return static_cast<float*>(call.log_sums.data)[row * call.log_sums.stride + head];
}

}  // namespace ashlar::cuda
