// SPDX-License-Identifier: Apache-2.0
// Grouped convolutions along the rows of blocks, and their gradients. Neighbouring threads have neighbouring channels.

#include "train_kernels.h"
#include "train_values.cuh"

namespace ashlar::cuda {
namespace train {
namespace {

__device__ __forceinline__ float value_of(const Matrix& x, int64_t r, int32_t c) {
  return load(x.data, r * x.stride + c, x.is_f32);
}

__device__ __forceinline__ float weight_of(const TrainConv& call, int64_t r, int32_t t, int32_t c) {
  const int32_t groups = call.x.cols / call.group;
  return call.base[int64_t{t} * call.x.cols + c] + value_of(call.dynamic, r, t * groups + c / call.group);
}

/// Taps of row r: fewer at the beginning of its block.
__device__ __forceinline__ int32_t taps_of(const TrainConv& call, int32_t r) {
  return min(call.taps, r % call.block + 1);
}

__global__ void __launch_bounds__(kThreads) conv_kernel(TrainConv call, Matrix out, bool add) {
  const auto cols = static_cast<uint32_t>(out.cols), n = static_cast<uint32_t>(out.rows) * cols;
  for (uint32_t i = first_group(); i < n; i += group_step()) {
    const auto r = static_cast<int32_t>(i / cols), c = static_cast<int32_t>(i % cols);
    const int64_t at = r * out.stride + c;
    float sum = add ? load(out.data, at, out.is_f32) : 0.0F;
    for (int32_t t = 0; t < taps_of(call, r); ++t) {
      sum = fmaf(weight_of(call, r, t, c), value_of(call.x, int64_t{r} - t, c), sum);
    }
    store(out.data, at, out.is_f32, sum);
  }
}

__global__ void __launch_bounds__(kThreads) conv_x_kernel(TrainConv call, Matrix d_out, Matrix d_x) {
  const auto cols = static_cast<uint32_t>(d_x.cols), n = static_cast<uint32_t>(d_x.rows) * cols;
  for (uint32_t i = first_group(); i < n; i += group_step()) {
    const auto r = static_cast<int32_t>(i / cols), c = static_cast<int32_t>(i % cols);
    float sum = 0;
    for (int32_t t = 0; t < call.taps && r + t < d_x.rows && taps_of(call, r + t) > t; ++t) {
      sum = fmaf(weight_of(call, int64_t{r} + t, t, c), value_of(d_out, int64_t{r} + t, c), sum);
    }
    store(d_x.data, r * d_x.stride + c, d_x.is_f32, sum);
  }
}

/// A thread a tap and group of a row.
__global__ void __launch_bounds__(kThreads) conv_dynamic_kernel(TrainConv call, Matrix d_out, Matrix d_dynamic) {
  const auto cols = static_cast<uint32_t>(d_dynamic.cols), n = static_cast<uint32_t>(d_dynamic.rows) * cols;
  const int32_t groups = call.x.cols / call.group;
  for (uint32_t i = first_group(); i < n; i += group_step()) {
    const auto r = static_cast<int32_t>(i / cols), place = static_cast<int32_t>(i % cols);
    const int32_t t = place / groups, first = place % groups * call.group;
    float sum = 0;
    if (t < taps_of(call, r)) {
      for (int32_t c = first; c < first + call.group; ++c) {
        sum = fmaf(value_of(d_out, r, c), value_of(call.x, int64_t{r} - t, c), sum);
      }
    }
    store(d_dynamic.data, r * d_dynamic.stride + place, d_dynamic.is_f32, sum);
  }
}

/// Block (i, j, t): of tap t the channels [i * kThreads, ...), over the rows [j * rows, ...).
__global__ void __launch_bounds__(kThreads) conv_base_kernel(TrainConv call, Matrix d_out, int32_t rows, float* partials) {
  const auto c = static_cast<int32_t>(blockIdx.x * kThreads + threadIdx.x);
  if (c >= d_out.cols) return;
  const auto t = static_cast<int32_t>(blockIdx.z), first = static_cast<int32_t>(blockIdx.y) * rows;
  float sum = 0;
#pragma unroll 4
  for (int32_t r = first; r < min(first + rows, d_out.rows); ++r) {
    if (t < taps_of(call, r)) sum = fmaf(value_of(d_out, r, c), value_of(call.x, int64_t{r} - t, c), sum);
  }
  partials[(int64_t{blockIdx.y} * call.taps + t) * d_out.cols + c] = sum;
}

__global__ void __launch_bounds__(kThreads) add_partials_kernel(const float* partials, int32_t n_partials, int32_t n, float* out) {
  const auto i = static_cast<int32_t>(blockIdx.x * kThreads + threadIdx.x);
  if (i >= n) return;
  float sum = 0;
#pragma unroll 8
  for (int32_t p = 0; p < n_partials; ++p) sum += partials[int64_t{p} * n + i];
  out[i] += sum;
}

}  // namespace
}  // namespace train

using namespace train;

void train_block_conv(cudaStream_t stream, const TrainConv& call, bool add, const Matrix& out) {
  conv_kernel<<<blocks_for_groups(int64_t{out.rows} * out.cols), kThreads, 0, stream>>>(call, out, add);
}

void train_block_conv_gradient(cudaStream_t stream, const TrainConv& call, const Matrix& d_out, const Matrix& d_x,
                               const Matrix& d_dynamic, float* d_base, float* partials) {
  conv_x_kernel<<<blocks_for_groups(int64_t{d_x.rows} * d_x.cols), kThreads, 0, stream>>>(call, d_out, d_x);
  conv_dynamic_kernel<<<blocks_for_groups(int64_t{d_dynamic.rows} * d_dynamic.cols), kThreads, 0, stream>>>(
      call, d_out, d_dynamic);
  const int32_t rows = (d_x.rows + kConvPartials - 1) / kConvPartials;
  const int32_t n_partials = (d_x.rows + rows - 1) / rows, n = call.taps * d_x.cols;
  const dim3 blocks((d_x.cols + kThreads - 1) / kThreads, static_cast<unsigned>(n_partials), static_cast<unsigned>(call.taps));
  conv_base_kernel<<<blocks, kThreads, 0, stream>>>(call, d_out, rows, partials);
  add_partials_kernel<<<static_cast<unsigned>((n + kThreads - 1) / kThreads), kThreads, 0, stream>>>(partials, n_partials, n,
                                                                                                     d_base);
}

}  // namespace ashlar::cuda
