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

/// The logarithm of the sum of a query's weights.
__device__ __forceinline__ float& log_sum(const TrainAttention& call, int64_t row, int32_t head) {
  return static_cast<float*>(call.log_sums.data)[row * call.log_sums.stride + head];
}

}  // namespace ashlar::cuda
