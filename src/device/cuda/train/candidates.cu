// SPDX-License-Identifier: Apache-2.0
// The loss of rows that choose among candidates, a warp a row; its gradients, a block of threads a row; and sums of rows
// in the places of a table, in parts, as some tokens are candidates of most rows.

#include "train_kernels.h"
#include "train_values.cuh"

namespace ashlar::cuda {
namespace train {
namespace {

__device__ __forceinline__ float value_of(const Matrix& x, int64_t r, int32_t c) {
  return load(x.data, r * x.stride + c, x.is_f32);
}

/// Lane j has candidate j, and kEmpty where there is none.
__global__ void __launch_bounds__(kThreads) candidate_loss_kernel(TrainCandidates call, RowLoss* losses) {
  const auto lane = static_cast<int32_t>(threadIdx.x % 32);
  const auto r = static_cast<int32_t>((blockIdx.x * kThreads + threadIdx.x) / 32);
  if (r >= call.hidden.rows) return;
  const int32_t n = call.n, label = call.labels[r], before = call.before[r];
  const int64_t at = int64_t{r} * n + lane;
  int32_t id = lane < n ? call.ids[at] : -1;
  float logit = lane < n ? call.logits[at] : -INFINITY;
  const unsigned places = __ballot_sync(~0u, id == label);
  const bool missing = places == 0;
  const int32_t place = missing ? n - 1 : __ffs(static_cast<int>(places)) - 1;
  if (missing) {
    float sum = 0;
    for (int32_t c = lane; c < call.hidden.cols; c += 32) sum += value_of(call.hidden, r, c) * value_of(call.head, label, c);
    sum = warp_sum(sum);
    if (lane == place) id = label, logit = sum, call.ids[at] = label;
  }
  float score = logit;
  for (int32_t j = 0; j < n; ++j) {
    const int32_t other = __shfl_sync(~0u, id, j);
    float sum = 0;
    for (int32_t i = lane; i < call.projected.cols; i += 32) {
      const float code = value_of(call.predecessors, before, i) * value_of(call.projected, r, i);
      sum = fmaf(code, value_of(call.successors, other, i), sum);
    }
    sum = warp_sum(sum);
    if (lane == j) score += call.scale * sum;
  }
  const float highest = warp_max(score);
  const float e = lane < n ? expf(score - highest) : 0.0F;
  const float sum = warp_sum(e);
  // Of the candidates that were not put there the first with the highest score.
  const float own = lane < n && !(missing && lane == place) ? score : -INFINITY;
  const float best = warp_max(own);
  const unsigned firsts = __ballot_sync(~0u, own == best && best > -INFINITY);
  const int32_t chosen = firsts == 0 ? -1 : __shfl_sync(~0u, id, __ffs(static_cast<int>(firsts)) - 1);
  if (lane == place) losses[r] = {logf(sum) - (score - highest), e / sum, chosen};
  if (lane < n) call.logits[at] = e / sum - (lane == place ? 1.0F : 0.0F);
}

__global__ void __launch_bounds__(kThreads) candidate_gradient_kernel(TrainCandidates call, const float* weights,
                                                                      TrainCandidateGradients out) {
  __shared__ int32_t ids[32];
  __shared__ float d_scores[32];
  const int64_t r = blockIdx.x;
  const int32_t n = call.n, before = call.before[r];
  if (static_cast<int32_t>(threadIdx.x) < n) {
    ids[threadIdx.x] = call.ids[r * n + threadIdx.x];
    d_scores[threadIdx.x] = call.logits[r * n + threadIdx.x];
  }
  __syncthreads();
  const auto sum_of = [&](const Matrix& table, int32_t c) {
    float sum = 0;
#pragma unroll 4
    for (int32_t j = 0; j < n; ++j) sum = fmaf(d_scores[j], value_of(table, ids[j], c), sum);
    return sum;
  };
  const float weight = weights[r], factor = weight * call.scale;
  const auto first = static_cast<int32_t>(threadIdx.x);
  for (int32_t c = first; c < call.hidden.cols; c += kThreads) {
    static_cast<float*>(out.hidden.data)[r * out.hidden.stride + c] = weight * sum_of(call.head, c);
  }
  for (int32_t i = first; i < call.projected.cols; i += kThreads) {
    const float code = value_of(call.predecessors, before, i), projected = value_of(call.projected, r, i);
    const float sum = sum_of(call.successors, i);
    static_cast<float*>(out.projected.data)[r * out.projected.stride + i] = factor * code * sum;
    static_cast<float*>(out.before.data)[r * out.before.stride + i] = factor * projected * sum;
    static_cast<float*>(out.after.data)[r * out.after.stride + i] = factor * projected * code;
  }
}

/// A block a part of a group.
__global__ void __launch_bounds__(kThreads) part_sums_kernel(Matrix rows, RowSums sums) {
  __shared__ int32_t of_rows[kEntriesOfPart];
  __shared__ float factors[kEntriesOfPart];
  const int32_t begin = sums.begins[blockIdx.x], n = sums.begins[blockIdx.x + 1] - begin;
  for (auto i = static_cast<int32_t>(threadIdx.x); i < n; i += kThreads) {
    const int32_t entry = sums.entries[begin + i];
    of_rows[i] = entry / sums.n;
    factors[i] = sums.factors != nullptr ? sums.factors[entry] : 1.0F;
  }
  __syncthreads();
  for (auto c = static_cast<int32_t>(threadIdx.x); c < rows.cols; c += kThreads) {
    float sum = 0;
#pragma unroll 8
    for (int32_t i = 0; i < n; ++i) sum = fmaf(factors[i], value_of(rows, of_rows[i], c), sum);
    sums.sums[int64_t{blockIdx.x} * rows.cols + c] = sum;
  }
}

/// A block a group.
__global__ void __launch_bounds__(kThreads) add_parts_kernel(RowSums sums, Matrix table) {
  const int32_t first = sums.firsts[blockIdx.x], last = sums.firsts[blockIdx.x + 1];
  float* const to = static_cast<float*>(table.data) + sums.ids[blockIdx.x] * table.stride;
  for (auto c = static_cast<int32_t>(threadIdx.x); c < table.cols; c += kThreads) {
    float sum = 0;
#pragma unroll 8
    for (int32_t part = first; part < last; ++part) sum += sums.sums[int64_t{part} * table.cols + c];
    to[c] += sums.scale * sum;
  }
}

}  // namespace
}  // namespace train

using namespace train;

void train_candidate_loss(cudaStream_t stream, const TrainCandidates& call, RowLoss* losses) {
  constexpr int kRows = kThreads / 32;
  candidate_loss_kernel<<<static_cast<unsigned>((call.hidden.rows + kRows - 1) / kRows), kThreads, 0, stream>>>(call, losses);
}

void train_candidate_gradient(cudaStream_t stream, const TrainCandidates& call, const float* weights,
                              const TrainCandidateGradients& out) {
  candidate_gradient_kernel<<<static_cast<unsigned>(call.hidden.rows), kThreads, 0, stream>>>(call, weights, out);
}

void train_add_rows(cudaStream_t stream, const Matrix& rows, const RowSums& sums, const Matrix& table) {
  part_sums_kernel<<<static_cast<unsigned>(sums.parts), kThreads, 0, stream>>>(rows, sums);
  add_parts_kernel<<<static_cast<unsigned>(sums.groups), kThreads, 0, stream>>>(sums, table);
}

}  // namespace ashlar::cuda
