// SPDX-License-Identifier: Apache-2.0
// The loss of rows of logits, and its gradient in their place: one block of threads a row, which reads it twice.

#include "train_kernels.h"
#include "train_values.cuh"

namespace ashlar::cuda {
namespace train {
namespace {

constexpr int kRowThreads = 1024;
constexpr int kRowWarps = kRowThreads / 32;
constexpr int kStride = 4 * kRowThreads;

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

__global__ void __launch_bounds__(kRowThreads)
    cross_entropy_kernel(Matrix logits, const int32_t* labels, Matrix gradient, RowLoss* losses) {
  const int64_t r = blockIdx.x;
  const float* const row = static_cast<const float*>(logits.data) + r * logits.stride;
  const auto four_of = [&](int32_t c) { return *reinterpret_cast<const float4*>(row + c); };
  Part own = {-INFINITY, INT32_MAX, 0};
  for (int32_t c = 4 * static_cast<int32_t>(threadIdx.x); c < logits.cols; c += kStride) {
    const float4 x = four_of(c);
    add(own, x.x, c);
    if (c + 1 < logits.cols) add(own, x.y, c + 1);
    if (c + 2 < logits.cols) add(own, x.z, c + 2);
    if (c + 3 < logits.cols) add(own, x.w, c + 3);
  }
  const Part all = row_part(own);
  const int32_t label = labels[r];
  if (threadIdx.x == 0) {
    const float of_label = row[label] - all.highest;
    losses[r] = {logf(all.sum) - of_label, expf(of_label) / all.sum, all.best};
  }
  if (gradient.rows == 0) return;
  const float factor = 1 / all.sum;
  // What is written lies before what is still to be read: a value takes no more room than its logit.
  for (int32_t begin = 0; begin < logits.cols; begin += kStride) {
    const int32_t c = begin + 4 * static_cast<int32_t>(threadIdx.x);
    const bool is_there = c < logits.cols;
    const float4 x = is_there ? four_of(c) : float4{};
    __syncthreads();
    if (!is_there) continue;
    const auto value = [&](float logit, int32_t id) {
      return __expf(logit - all.highest) * factor - (id == label ? 1.0F : 0.0F);
    };
    write<4>(gradient, r, c / 4, {{value(x.x, c), value(x.y, c + 1), value(x.z, c + 2), value(x.w, c + 3)}});
  }
}

}  // namespace
}  // namespace train

void train_cross_entropy(cudaStream_t stream, const Matrix& logits, const int32_t* labels, const Matrix& gradient,
                         RowLoss* losses) {
  train::cross_entropy_kernel<<<static_cast<unsigned>(logits.rows), train::kRowThreads, 0, stream>>>(logits, labels,
                                                                                                     gradient, losses);
}

}  // namespace ashlar::cuda
