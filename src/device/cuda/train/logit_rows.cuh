// SPDX-License-Identifier: Apache-2.0
#pragma once
// Rows of logits, one block of threads a row: the highest of a row, and its sum as exponentials.

#include "train_values.cuh"

namespace ashlar::cuda::train {

inline constexpr int kRowThreads = 1024;
inline constexpr int kRowWarps = kRowThreads / 32;
inline constexpr int kStride = 4 * kRowThreads;

__device__ __forceinline__ float4 four_of(const float* row, int32_t c) {
  return *reinterpret_cast<const float4*>(row + c);
}

/// fn(c) for every fourth column that this thread has.
template <class Fn>
__device__ __forceinline__ void for_fours(int32_t cols, const Fn& fn) {
  for (int32_t c = 4 * static_cast<int32_t>(threadIdx.x); c < cols; c += kStride) fn(c);
}

/// The highest of some logits, the lowest id of equals; and the sum of all as exponentials relative to it.
struct Part {
  float highest;
  int32_t best;  ///< INT32_MAX: no logit yet
  float sum;
};

__device__ __forceinline__ void add(Part& part, float logit, int32_t id) {
  if (logit > part.highest || part.best == INT32_MAX) {
    part.sum *= __expf(part.highest - logit);
    part.highest = logit, part.best = id;
  }
  part.sum += __expf(logit - part.highest);
}

/// Those without a logit take no part. Not a number stays one.
__device__ __forceinline__ Part merged(const Part& a, const Part& b) {
  if (b.best == INT32_MAX) return a;
  if (a.best == INT32_MAX) return b;
  const bool first = a.highest > b.highest || (a.highest == b.highest && a.best < b.best);
  const float highest = first ? a.highest : b.highest;
  return {highest, first ? a.best : b.best, a.sum * expf(a.highest - highest) + b.sum * expf(b.highest - highest)};
}

__device__ __forceinline__ Part warp_part(Part part) {
  for (int distance = 16; distance > 0; distance /= 2) {
    const Part other = {__shfl_down_sync(~0u, part.highest, distance), __shfl_down_sync(~0u, part.best, distance),
                        __shfl_down_sync(~0u, part.sum, distance)};
    part = merged(part, other);
  }
  return part;
}

__device__ __forceinline__ Part row_part(const Part& own) {
  __shared__ Part parts[kRowWarps];
  const Part of_warp = warp_part(own);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = of_warp;
  __syncthreads();
  if (threadIdx.x < 32) {
    const Part all = warp_part(parts[threadIdx.x]);
    if (threadIdx.x == 0) parts[0] = all;
  }
  __syncthreads();
  return parts[0];
}

/// Of the columns that this thread has.
__device__ __forceinline__ Part own_part(const float* row, int32_t cols) {
  Part own = {-INFINITY, INT32_MAX, 0};
  for_fours(cols, [&](int32_t c) {
    const float4 x = four_of(row, c);
    add(own, x.x, c);
    if (c + 1 < cols) add(own, x.y, c + 1);
    if (c + 2 < cols) add(own, x.z, c + 2);
    if (c + 3 < cols) add(own, x.w, c + 3);
  });
  return own;
}

/// The same for all threads. May be called again once all threads are past a barrier.
__device__ __forceinline__ Part part_of_row(const float* row, int32_t cols) { return row_part(own_part(row, cols)); }

}  // namespace ashlar::cuda::train
