// SPDX-License-Identifier: Apache-2.0
// The loss of rows of logits, and its gradient in their place: one block of threads a row, which reads it twice.

#include "logit_rows.cuh"
#include "train_kernels.h"

namespace ashlar::cuda {
namespace train {
namespace {

__global__ void __launch_bounds__(kRowThreads)
    cross_entropy_kernel(Matrix logits, const int32_t* labels, Matrix gradient, RowLoss* losses) {
  const int64_t r = blockIdx.x;
  const float* const row = static_cast<const float*>(logits.data) + r * logits.stride;
  const Part all = part_of_row(row, logits.cols);
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
    const float4 x = is_there ? four_of(row, c) : float4{};
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
