// SPDX-License-Identifier: Apache-2.0
// Whole arrays: norms, sums of two, the optimiser. Four values a thread where addresses allow, neighbours side by side.

#include "train_kernels.h"

namespace ashlar::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMaxBlocks = 132 * 16;

unsigned blocks_for_values(int64_t n) {
  const int64_t blocks = (n / 4 + kThreads) / kThreads;
  return static_cast<unsigned>(blocks < kMaxBlocks ? blocks : kMaxBlocks);
}

bool aligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }

/// fn(index) for each of n: of groups of four first, then of the rest.
template <class Four, class One>
__device__ __forceinline__ void for_values(int64_t n, bool by_four, const Four& four, const One& one) {
  const int64_t thread = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const int64_t threads = int64_t{gridDim.x} * kThreads;
  const int64_t groups = by_four ? n / 4 : 0;
  for (int64_t i = thread; i < groups; i += threads) four(i);
  for (int64_t i = groups * 4 + thread; i < n; i += threads) one(i);
}

/// Of the array of blockIdx.y.
__global__ void __launch_bounds__(kThreads)
    squares_kernel(const float* values, int64_t n, bool by_four, double* partials) {
  __shared__ double sums[kThreads];
  values += blockIdx.y * n, partials += int64_t{blockIdx.y} * gridDim.x;
  double sum = 0;
  for_values(
      n, by_four,
      [&](int64_t i) {
        const float4 x = reinterpret_cast<const float4*>(values)[i];
        sum += static_cast<double>(x.x) * x.x + static_cast<double>(x.y) * x.y + static_cast<double>(x.z) * x.z +
               static_cast<double>(x.w) * x.w;
      },
      [&](int64_t i) { sum += static_cast<double>(values[i]) * values[i]; });
  sums[threadIdx.x] = sum;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) partials[blockIdx.x] = sums[0];
}

__global__ void __launch_bounds__(kThreads)
    combine_kernel(float alpha, const float* x, float beta, const float* y, int64_t n, bool by_four, float* out) {
  const auto value = [=](float a, float b) { return fmaf(alpha, a, beta * b); };
  for_values(
      n, by_four,
      [&](int64_t i) {
        const float4 a = reinterpret_cast<const float4*>(x)[i];
        const float4 b = reinterpret_cast<const float4*>(y)[i];
        reinterpret_cast<float4*>(out)[i] =
            make_float4(value(a.x, b.x), value(a.y, b.y), value(a.z, b.z), value(a.w, b.w));
      },
      [&](int64_t i) { out[i] = value(x[i], y[i]); });
}

__device__ __forceinline__ void scale_values(float* values, int64_t n, bool by_four, float factor) {
  for_values(
      n, by_four,
      [&](int64_t i) {
        float4 x = reinterpret_cast<float4*>(values)[i];
        x.x *= factor, x.y *= factor, x.z *= factor, x.w *= factor;
        reinterpret_cast<float4*>(values)[i] = x;
      },
      [&](int64_t i) { values[i] *= factor; });
}

/// The array of blockIdx.y, whose squares `partials` sum up to. Every thread adds them in the same order.
__global__ void __launch_bounds__(kThreads)
    normalise_kernel(float* values, int64_t n, bool by_four, float least, const double* partials, int32_t n_partials) {
  values += blockIdx.y * n, partials += int64_t{blockIdx.y} * n_partials;
  double sum = 0;
#pragma unroll 8
  for (int32_t i = 0; i < n_partials; ++i) sum += partials[i];
  const float factor = 1 / fmaxf(static_cast<float>(sqrt(sum)), least);
  scale_values(values, n, by_four, factor);
}

__global__ void __launch_bounds__(kThreads) scale_kernel(float* values, int64_t n, bool by_four, float factor) {
  scale_values(values, n, by_four, factor);
}

__device__ __forceinline__ void adamw_value(const TrainAdamW& step, float g, float& value, float& m, float& v) {
  m = fmaf(step.beta1, m, (1 - step.beta1) * g);
  v = fmaf(step.beta2, v, (1 - step.beta2) * g * g);
  value = value * step.shrink - step.step_size * m / fmaf(sqrtf(v), step.inverse_correction, step.eps);
}

__global__ void __launch_bounds__(kThreads)
    adamw_kernel(TrainAdamW step, const float* gradient, int64_t n, bool by_four, float* values, float* m, float* v) {
  for_values(
      n, by_four,
      [&](int64_t i) {
        const float4 g = reinterpret_cast<const float4*>(gradient)[i];
        float4 a = reinterpret_cast<float4*>(values)[i];
        float4 b = reinterpret_cast<float4*>(m)[i];
        float4 c = reinterpret_cast<float4*>(v)[i];
        adamw_value(step, g.x, a.x, b.x, c.x);
        adamw_value(step, g.y, a.y, b.y, c.y);
        adamw_value(step, g.z, a.z, b.z, c.z);
        adamw_value(step, g.w, a.w, b.w, c.w);
        reinterpret_cast<float4*>(values)[i] = a;
        reinterpret_cast<float4*>(m)[i] = b;
        reinterpret_cast<float4*>(v)[i] = c;
      },
      [&](int64_t i) { adamw_value(step, gradient[i], values[i], m[i], v[i]); });
}

}  // namespace

void train_squares(cudaStream_t stream, const float* values, int64_t n, double* partials) {
  squares_kernel<<<kSquaredPartials, kThreads, 0, stream>>>(values, n, aligned(values), partials);
}

void train_normalise(cudaStream_t stream, float* values, int64_t count, int32_t n, float least, double* partials) {
  // Few partial sums, as every block adds all of an array's.
  constexpr int32_t kPartials = 64;
  static_assert(kPartials <= kSquaredPartials);
  const bool by_four = aligned(values) && count % 4 == 0;
  const auto arrays = static_cast<unsigned>(n);
  squares_kernel<<<dim3(kPartials, arrays), kThreads, 0, stream>>>(values, count, by_four, partials);
  normalise_kernel<<<dim3(blocks_for_values(count), arrays), kThreads, 0, stream>>>(values, count, by_four, least,
                                                                                    partials, kPartials);
}

void train_scale(cudaStream_t stream, float* values, int64_t n, float factor) {
  scale_kernel<<<blocks_for_values(n), kThreads, 0, stream>>>(values, n, aligned(values), factor);
}

void train_combine(cudaStream_t stream, float alpha, const float* x, float beta, const float* y, int64_t n,
                   float* out) {
  const bool by_four = aligned(x) && aligned(y) && aligned(out);
  combine_kernel<<<blocks_for_values(n), kThreads, 0, stream>>>(alpha, x, beta, y, n, by_four, out);
}

void train_adamw(cudaStream_t stream, const TrainAdamW& step, const float* gradient, int64_t n, float* values, float* m,
                 float* v) {
  const bool by_four = aligned(gradient) && aligned(values) && aligned(m) && aligned(v);
  adamw_kernel<<<blocks_for_values(n), kThreads, 0, stream>>>(step, gradient, n, by_four, values, m, v);
}

}  // namespace ashlar::cuda
