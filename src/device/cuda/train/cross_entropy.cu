// SPDX-License-Identifier: Apache-2.0
// The loss of rows of logits, and its gradient in their place: one block of threads a row, which reads it twice.

#include "highest_of_row.cuh"

namespace ashlar::cuda {
namespace train {
namespace {

template <bool kLists>
__global__ void __launch_bounds__(kRowThreads) cross_entropy_kernel(Matrix logits, const int32_t* labels, Matrix gradient,
                                                                    RowCandidates candidates, RowLoss* losses) {
  __shared__ RowList<kLists> list;
  const int64_t r = blockIdx.x;
  const float* const row = static_cast<const float*>(logits.data) + r * logits.stride;
  const Part own = own_part(row, logits.cols);
  const Part all = row_part(own);
  const int32_t label = labels[r];
  if (threadIdx.x == 0) {
    const float of_label = row[label] - all.highest;
    losses[r] = {logf(all.sum) - of_label, expf(of_label) / all.sum, all.best};
  }
  if (gradient.rows == 0 && !kLists) return;
  begin(list, own.highest, candidates.n);
  const float factor = 1 / all.sum;
  // What is written lies before what is still to be read: a value takes no more room than its logit.
  for (int32_t begin = 0; begin < logits.cols; begin += kStride) {
    const int32_t c = begin + 4 * static_cast<int32_t>(threadIdx.x);
    const bool is_there = c < logits.cols;
    const float4 x = is_there ? four_of(row, c) : float4{};
    offer_four(list, x, c, logits.cols, candidates.n);
    if (!is_there || gradient.rows == 0) continue;
    const auto value = [&](float logit, int32_t id) {
      return __expf(logit - all.highest) * factor - (id == label ? 1.0F : 0.0F);
    };
    write<4>(gradient, r, c / 4, {{value(x.x, c), value(x.y, c + 1), value(x.z, c + 2), value(x.w, c + 3)}});
  }
  write(list, r, candidates);
}

}  // namespace
}  // namespace train

void train_cross_entropy(cudaStream_t stream, const Matrix& logits, const int32_t* labels, const Matrix& gradient,
                         const RowCandidates& candidates, RowLoss* losses) {
  const auto kernel = candidates.n > 0 ? train::cross_entropy_kernel<true> : train::cross_entropy_kernel<false>;
  kernel<<<rows_of(logits), train::kRowThreads, 0, stream>>>(logits, labels, gradient, candidates, losses);
}

}  // namespace ashlar::cuda
