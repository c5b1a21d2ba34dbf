// SPDX-License-Identifier: Apache-2.0
// The loss of rows of logits against the distributions of other logits, and its gradient in their place: one block of
// threads a row, which reads both three times.

#include "highest_of_row.cuh"

namespace ashlar::cuda {
namespace train {
namespace {

/// Sums over the columns of a row; `below`: of q where q < p.
struct Sums {
  float divergence, overlap, below;
};

__device__ __forceinline__ Sums warp_sums(Sums sums) {
  for (int distance = 16; distance > 0; distance /= 2) {
    sums.divergence += __shfl_down_sync(~0u, sums.divergence, distance);
    sums.overlap += __shfl_down_sync(~0u, sums.overlap, distance);
    sums.below += __shfl_down_sync(~0u, sums.below, distance);
  }
  return sums;
}

__device__ __forceinline__ Sums row_sums(const Sums& own) {
  __shared__ Sums parts[kRowWarps];
  const Sums of_warp = warp_sums(own);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = of_warp;
  __syncthreads();
  if (threadIdx.x < 32) {
    const Sums all = warp_sums(parts[threadIdx.x]);
    if (threadIdx.x == 0) parts[0] = all;
  }
  __syncthreads();
  return parts[0];
}

/// As distribution_terms() in device/train_ops.h.
struct Terms {
  float loss, of_divergence, of_overlap;
};

__device__ __forceinline__ Terms terms_of(RowDistance distance, const Sums& sums) {
  const float least = fmaxf(sums.overlap, 1e-6F);
  const float share = expf(-3 * sums.overlap);
  switch (distance) {
    case RowDistance::kKl:
      return {sums.divergence, 1, 0};
    case RowDistance::kTv:
      return {1 - sums.overlap, 0, -1};
    case RowDistance::kOverlap:
      return {-logf(least), 0, -1 / least};
    default:
      return {share * sums.divergence + (1 - share) * (1 - sums.overlap), share, share - 1};
  }
}

template <bool kLists>
__global__ void __launch_bounds__(kRowThreads)
    distribution_loss_kernel(Matrix logits, Matrix target, RowDistance distance, Matrix gradient,
                             RowCandidates candidates, RowLoss* losses) {
  __shared__ RowList<kLists> list;
  const int64_t r = blockIdx.x;
  const int32_t cols = logits.cols;
  const float* const row = static_cast<const float*>(logits.data) + r * logits.stride;
  const float* const row_p = static_cast<const float*>(target.data) + r * target.stride;
  const Part own_all = own_part(row, cols);
  const Part all = row_part(own_all);
  __syncthreads();
  const Part all_p = part_of_row(row_p, cols);
  const float offset = all.highest + logf(all.sum);
  const float offset_p = all_p.highest + logf(all_p.sum);
  Sums own = {0, 0, 0};
  const auto count = [&](float logit, float logit_p) {
    const float log_q = logit - offset, log_p = logit_p - offset_p;
    const float q = __expf(log_q), p = __expf(log_p);
    own.divergence += p * (log_p - log_q);
    own.overlap += fminf(p, q);
    if (q < p) own.below += q;
  };
  for_fours(cols, [&](int32_t c) {
    const float4 x = four_of(row, c), y = four_of(row_p, c);
    count(x.x, y.x);
    if (c + 1 < cols) count(x.y, y.y);
    if (c + 2 < cols) count(x.z, y.z);
    if (c + 3 < cols) count(x.w, y.w);
  });
  const Sums sums = row_sums(own);
  const Terms terms = terms_of(distance, sums);
  if (threadIdx.x == 0) losses[r] = {terms.loss, sums.overlap, all.best};
  if (gradient.rows == 0 && !kLists) return;
  begin(list, own_all.highest, candidates.n);
  // What is written lies before what is still to be read: a value takes no more room than its logit.
  for (int32_t begin = 0; begin < cols; begin += kStride) {
    const int32_t c = begin + 4 * static_cast<int32_t>(threadIdx.x);
    const bool is_there = c < cols;
    const float4 x = is_there ? four_of(row, c) : float4{};
    const float4 y = is_there ? four_of(row_p, c) : float4{};
    offer_four(list, x, c, cols, candidates.n);
    if (!is_there || gradient.rows == 0) continue;
    const auto value = [&](float logit, float logit_p) {
      const float q = __expf(logit - offset), p = __expf(logit_p - offset_p);
      return terms.of_divergence * (q - p) + terms.of_overlap * q * ((q < p ? 1.0F : 0.0F) - sums.below);
    };
    write<4>(gradient, r, c / 4, {{value(x.x, y.x), value(x.y, y.y), value(x.z, y.z), value(x.w, y.w)}});
  }
  write(list, r, candidates);
}

}  // namespace
}  // namespace train

void train_distribution_loss(cudaStream_t stream, const Matrix& logits, const Matrix& target, RowDistance distance,
                             const Matrix& gradient, const RowCandidates& candidates, RowLoss* losses) {
  const auto kernel =
      candidates.n > 0 ? train::distribution_loss_kernel<true> : train::distribution_loss_kernel<false>;
  kernel<<<rows_of(logits), train::kRowThreads, 0, stream>>>(logits, target, distance, gradient, candidates, losses);
}

}  // namespace ashlar::cuda
