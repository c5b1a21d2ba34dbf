// SPDX-License-Identifier: Apache-2.0
// What is done to rows of logits before tokens are chosen, operation by operation as the host does it.

#include <math_constants.h>

#include "../kernels/device_math.cuh"

namespace ashlar::cuda {
namespace {

constexpr int kThreads = 256;

/// A row is copied by gridDim.y blocks of threads.
__global__ void __launch_bounds__(kThreads)
    copy_kernel(Matrix logits, const MaskedCopy* copies, const uint32_t* masks, int32_t words, Matrix out) {
  begin_kernel();
  const MaskedCopy copy = copies[blockIdx.x];
  const auto* const from = static_cast<const float*>(logits.data) + copy.row * logits.stride;
  auto* const to = static_cast<float*>(out.data) + blockIdx.x * out.stride;
  const uint32_t* const mask = copy.mask >= 0 ? masks + int64_t{copy.mask} * words : nullptr;
  const auto step = static_cast<int32_t>(gridDim.y * kThreads);
  for (auto i = static_cast<int32_t>(blockIdx.y * kThreads + threadIdx.x); i < logits.cols; i += step) {
    const bool stays = mask == nullptr || (mask[i / 32] >> (i % 32) & 1U) != 0;
    to[i] = stays ? from[i] : -CUDART_INF_F;
  }
}

__global__ void __launch_bounds__(kThreads) adjust_kernel(Matrix logits, const Adjustment* all, int32_t n) {
  begin_kernel();
  const auto i = static_cast<int32_t>(blockIdx.x * kThreads + threadIdx.x);
  if (i >= n) return;
  const Adjustment own = all[i];
  float& logit = static_cast<float*>(logits.data)[own.row * logits.stride + own.column];
  float value = logit + own.bias;
  value = value > 0 ? value / own.repetition : value * own.repetition;
  logit = value - own.penalty - own.repeat_penalty;
}

}  // namespace

void copy_masked(cudaStream_t stream, const Matrix& logits, const MaskedCopy* copies, const uint32_t* masks, int32_t words,
                 const Matrix& out) {
  start(stream, {dim3(rows_of(out), 32), kThreads}, copy_kernel, logits, copies, masks, words, out);
}

void adjust(cudaStream_t stream, const Matrix& logits, const Adjustment* adjustments, int32_t n) {
  start(stream, {blocks_for(n, kThreads), kThreads}, adjust_kernel, logits, adjustments, n);
}

}  // namespace ashlar::cuda
