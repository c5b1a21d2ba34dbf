// SPDX-License-Identifier: Apache-2.0
// RMS norms. A warp has a row, or a block of threads one that is wider than a warp has registers for.

#include "train_kernels.h"
#include "train_values.cuh"

namespace ashlar::cuda {
namespace train {
namespace {

constexpr int kWarps = kThreads / 32;

__global__ void __launch_bounds__(kThreads) norm_kernel(Matrix x, const float* weight, float eps, Matrix out) {
  const int64_t r = int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  if (r >= x.rows) return;
  const int lane = threadIdx.x % 32;
  float squares = 0;
#pragma unroll 4
  for (int c = lane; c < x.cols; c += 32) {
    const float value = load(x.data, r * x.stride + c, x.is_f32);
    squares = fmaf(value, value, squares);
  }
  const float s = 1 / sqrtf(warp_sum(squares) / static_cast<float>(x.cols) + eps);
#pragma unroll 4
  for (int c = lane; c < x.cols; c += 32) {
    store(out.data, r * out.stride + c, out.is_f32, load(x.data, r * x.stride + c, x.is_f32) * s * weight[c]);
  }
}

/// Sums over the threads of a row, the same in each.
template <int kRowThreads>
__device__ __forceinline__ float2 row_sums(float a, float b, float2 (&shared)[kWarps]) {
  float2 sums = {warp_sum(a), warp_sum(b)};
  if constexpr (kRowThreads > 32) {
    __syncthreads();
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = sums;
    __syncthreads();
    sums = shared[0];
    for (int warp = 1; warp < kWarps; ++warp) sums.x += shared[warp].x, sums.y += shared[warp].y;
  }
  return sums;
}

/// Rows [blockIdx.x * rows_of_block, ...). With s = 1 / rms: dx = s (w dy - x s^2 mean(w dy x)), and dw = sum over rows
/// of dy x s, here of this block's rows. A row is read before it is written, as d_x may be d_out.
template <int kRowThreads, int kPieces>
__global__ void __launch_bounds__(kThreads) norm_gradient_kernel(NormGradient call, int32_t rows_of_block) {
  constexpr int kGroups = kThreads / kRowThreads;
  __shared__ float2 shared[kWarps];
  __shared__ float parts[kGroups > 1 ? kGroups : 1][kGroups > 1 ? kRowThreads * kPieces : 1];
  const int thread = threadIdx.x % kRowThreads, group = threadIdx.x / kRowThreads;
  const int32_t cols = call.x.cols;
  const auto n = static_cast<float>(cols);
  float weight[kPieces], sums[kPieces] = {};
#pragma unroll
  for (int i = 0; i < kPieces; ++i) {
    const int c = thread + i * kRowThreads;
    weight[i] = c < cols ? call.weight[c] : 0.0F;
  }
  const int32_t first = static_cast<int32_t>(blockIdx.x) * rows_of_block;
  const int32_t last = min(first + rows_of_block, call.x.rows);
  for (int32_t r = first + group; r < last; r += kGroups) {
    float x[kPieces], d[kPieces];
    float squares = 0, product = 0;
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      const int c = thread + i * kRowThreads;
      x[i] = c < cols ? load(call.x.data, r * call.x.stride + c, call.x.is_f32) : 0.0F;
      d[i] = c < cols ? load(call.d_out.data, r * call.d_out.stride + c, call.d_out.is_f32) : 0.0F;
    }
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      squares = fmaf(x[i], x[i], squares);
      product = fmaf(x[i] * weight[i], d[i], product);
    }
    const float2 both = row_sums<kRowThreads>(squares, product, shared);
    const float s = 1 / sqrtf(both.x / n + call.eps);
    const float correction = s * s * s * both.y / n;
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      const int c = thread + i * kRowThreads;
      sums[i] = fmaf(d[i], x[i] * s, sums[i]);
      if (c >= cols) continue;
      const int64_t at = r * call.d_x.stride + c;
      const float value = s * weight[i] * d[i] - x[i] * correction;
      store(call.d_x.data, at, call.d_x.is_f32, call.add ? load(call.d_x.data, at, call.d_x.is_f32) + value : value);
    }
  }
  float* const partials = call.partials + int64_t{blockIdx.x} * cols;
  if constexpr (kGroups == 1) {
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      const int c = thread + i * kRowThreads;
      if (c < cols) partials[c] = sums[i];
    }
  } else {
#pragma unroll
    for (int i = 0; i < kPieces; ++i) parts[group][thread + i * kRowThreads] = sums[i];
    __syncthreads();
    for (int c = static_cast<int>(threadIdx.x); c < cols; c += kThreads) {
      float sum = parts[0][c];
      for (int g = 1; g < kGroups; ++g) sum += parts[g][c];
      partials[c] = sum;
    }
  }
}

/// Block i: columns [32 i, ...), whose partial sums each warp adds up a part of.
__global__ void __launch_bounds__(kThreads) norm_weight_kernel(NormGradient call, int32_t partials) {
  __shared__ float sums[kWarps][32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int32_t c = static_cast<int32_t>(blockIdx.x) * 32 + lane;
  float sum = 0;
  if (c < call.x.cols) {
#pragma unroll 8
    for (int32_t p = warp; p < partials; p += kWarps) sum += call.partials[int64_t{p} * call.x.cols + c];
  }
  sums[warp][lane] = sum;
  __syncthreads();
  if (warp != 0 || c >= call.x.cols) return;
  for (int w = 1; w < kWarps; ++w) sum += sums[w][lane];
  call.d_weight[c] += sum;
}

template <int kRowThreads, int kPieces>
void gradient(cudaStream_t stream, const NormGradient& call) {
  constexpr int kGroups = kThreads / kRowThreads;
  // A multiple of the rows at a time.
  const int32_t least = (call.x.rows + kNormPartials - 1) / kNormPartials;
  const int32_t rows = (least + kGroups - 1) / kGroups * kGroups;
  const unsigned partials = blocks_for(call.x.rows, rows);
  norm_gradient_kernel<kRowThreads, kPieces><<<partials, kThreads, 0, stream>>>(call, rows);
  norm_weight_kernel<<<blocks_for(call.x.cols, 32), kThreads, 0, stream>>>(call, static_cast<int32_t>(partials));
}

}  // namespace
}  // namespace train

void train_rms_norm(cudaStream_t stream, const Matrix& x, const float* weight, float eps, const Matrix& out) {
  train::norm_kernel<<<blocks_for(x.rows, train::kWarps), train::kThreads, 0, stream>>>(x, weight, eps, out);
}

void train_rms_norm_gradient(cudaStream_t stream, const NormGradient& call) {
  using train::gradient;
  const int32_t cols = call.x.cols;
  if (cols <= 32) return gradient<32, 1>(stream, call);
  if (cols <= 64) return gradient<32, 2>(stream, call);
  if (cols <= 128) return gradient<32, 4>(stream, call);
  if (cols <= 256) return gradient<32, 8>(stream, call);
  if (cols <= 640) return gradient<32, 20>(stream, call);
  if (cols <= 1024) return gradient<256, 4>(stream, call);
  if (cols <= 2048) return gradient<256, 8>(stream, call);
  if (cols <= 4096) return gradient<256, 16>(stream, call);
  if (cols <= 8192) return gradient<256, 32>(stream, call);
  gradient<256, kMaxNormColumns / 256>(stream, call);
}

}  // namespace ashlar::cuda
