// Row by row: norms, rotation, gates, moving rows, the loss. Neighbouring threads have neighbouring columns.

#include "../kernels/device_math.cuh"
#include "train_kernels.h"

namespace ashlar::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;

/// The row of this warp; rows of heads are short, those of the stream long: both fill a warp.
__device__ __forceinline__ int64_t row_of_warp() { return int64_t{blockIdx.x} * kWarps + threadIdx.x / 32; }

__global__ void __launch_bounds__(kThreads) norm_kernel(FloatRows x, const float* weight, float eps, FloatRows out) {
  const int64_t r = row_of_warp();
  if (r >= x.rows) return;
  const int lane = threadIdx.x % 32;
  const float* from = x.data + r * x.stride;
  float squares = 0;
  for (int c = lane; c < x.cols; c += 32) squares = fmaf(from[c], from[c], squares);
  const float s = 1 / sqrtf(warp_sum(squares) / static_cast<float>(x.cols) + eps);
  float* to = out.data + r * out.stride;
  for (int c = lane; c < x.cols; c += 32) to[c] = from[c] * s * weight[c];
}

/// With s = 1 / rms: factors [r] = {s, s^3 mean(w dy x)}.
__global__ void __launch_bounds__(kThreads) norm_factors_kernel(NormGradient call) {
  const int64_t r = row_of_warp();
  if (r >= call.x.rows) return;
  const int lane = threadIdx.x % 32;
  const float* x = call.x.data + r * call.x.stride;
  const float* d = call.d_out.data + r * call.d_out.stride;
  float squares = 0, product = 0;
  for (int c = lane; c < call.x.cols; c += 32) {
    squares = fmaf(x[c], x[c], squares);
    product = fmaf(x[c] * call.weight[c], d[c], product);
  }
  const auto n = static_cast<float>(call.x.cols);
  const float s = 1 / sqrtf(warp_sum(squares) / n + call.eps);
  product = warp_sum(product);
  if (lane == 0) call.factors[2 * r] = s, call.factors[2 * r + 1] = s * s * s * product / n;
}

/// Block (i, p): columns [32 i, ...) of the rows of part p.
__global__ void __launch_bounds__(kThreads) norm_weight_kernel(NormGradient call, int32_t rows) {
  __shared__ float sums[kWarps][32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int32_t c = static_cast<int32_t>(blockIdx.x) * 32 + lane;
  const int32_t first = static_cast<int32_t>(blockIdx.y) * rows;
  const int32_t last = min(first + rows, call.x.rows);
  float sum = 0;
  if (c < call.x.cols) {
    for (int32_t r = first + warp; r < last; r += kWarps) {
      sum = fmaf(call.d_out.data[r * call.d_out.stride + c], call.x.data[r * call.x.stride + c] * call.factors[2 * r],
                 sum);
    }
  }
  sums[warp][lane] = sum;
  __syncthreads();
  if (warp != 0 || c >= call.x.cols) return;
  for (int w = 1; w < kWarps; ++w) sum += sums[w][lane];
  call.partials[int64_t{blockIdx.y} * call.x.cols + c] = sum;
}

__global__ void __launch_bounds__(kThreads) norm_weight_sum_kernel(NormGradient call, int32_t partials) {
  const int32_t c = static_cast<int32_t>(blockIdx.x * kThreads + threadIdx.x);
  if (c >= call.x.cols) return;
  float sum = 0;
  for (int32_t p = 0; p < partials; ++p) sum += call.partials[int64_t{p} * call.x.cols + c];
  call.d_weight[c] += sum;
}

__global__ void __launch_bounds__(kThreads) norm_gradient_kernel(NormGradient call) {
  const int64_t r = row_of_warp();
  if (r >= call.x.rows) return;
  const float* x = call.x.data + r * call.x.stride;
  const float* d = call.d_out.data + r * call.d_out.stride;
  float* to = call.d_x.data + r * call.d_x.stride;
  const float s = call.factors[2 * r], correction = call.factors[2 * r + 1];
  for (int c = threadIdx.x % 32; c < call.x.cols; c += 32) {
    const float value = s * call.weight[c] * d[c] - x[c] * correction;
    to[c] = call.add ? to[c] + value : value;
  }
}

__global__ void __launch_bounds__(kThreads) rope_kernel(FloatRows x, int32_t head_dim, const float* cos,
                                                        const float* sin, const int32_t* positions, float sign) {
  const int32_t half = head_dim / 2;
  const int64_t r = blockIdx.x;
  const int64_t at = int64_t{positions[r]} * half;
  for (int32_t pair = static_cast<int32_t>(threadIdx.x); pair < x.cols / 2; pair += kThreads) {
    const int32_t i = pair % half;
    float* values = x.data + r * x.stride + pair / half * head_dim + i;
    const float a = values[0], b = values[half];
    const float c = cos[at + i], s = sign * sin[at + i];
    values[0] = a * c - b * s;
    values[half] = b * c + a * s;
  }
}

__global__ void __launch_bounds__(kThreads) silu_kernel(FloatRows gate, FloatRows up, FloatRows out) {
  const int64_t r = blockIdx.x;
  for (int32_t c = static_cast<int32_t>(threadIdx.x); c < out.cols; c += kThreads) {
    const float g = gate.data[r * gate.stride + c];
    out.data[r * out.stride + c] = g / (1 + expf(-g)) * up.data[r * up.stride + c];
  }
}

__global__ void __launch_bounds__(kThreads)
    silu_gradient_kernel(FloatRows d_out, FloatRows gate, FloatRows up, FloatRows d_gate, FloatRows d_up) {
  const int64_t r = blockIdx.x;
  for (int32_t c = static_cast<int32_t>(threadIdx.x); c < d_out.cols; c += kThreads) {
    const float d = d_out.data[r * d_out.stride + c];
    const float g = gate.data[r * gate.stride + c];
    const float u = up.data[r * up.stride + c];
    const float s = 1 / (1 + expf(-g));
    d_gate.data[r * d_gate.stride + c] = d * u * s * (1 + g * (1 - s));
    d_up.data[r * d_up.stride + c] = d * g * s;
  }
}

__global__ void __launch_bounds__(kThreads)
    gather_kernel(FloatRows table, const int32_t* ids, float scale, FloatRows out) {
  const int64_t r = blockIdx.x;
  const float* from = table.data + (ids == nullptr ? r : int64_t{ids[r]}) * table.stride;
  for (int32_t c = static_cast<int32_t>(threadIdx.x); c < out.cols; c += kThreads) {
    out.data[r * out.stride + c] = from[c] * scale;
  }
}

__global__ void __launch_bounds__(kThreads) widen_kernel(const __nv_bfloat16* x, int64_t stride, FloatRows out) {
  const int64_t r = blockIdx.x;
  for (int32_t c = static_cast<int32_t>(threadIdx.x); c < out.cols; c += kThreads) {
    out.data[r * out.stride + c] = __bfloat162float(x[r * stride + c]);
  }
}

__global__ void __launch_bounds__(kThreads)
    scatter_kernel(FloatRows rows, const int32_t* ids, const float* scales, FloatRows out) {
  const int64_t r = blockIdx.x;
  float* to = out.data + ids[r] * out.stride;
  const float scale = scales[r];
  for (int32_t c = static_cast<int32_t>(threadIdx.x); c < out.cols; c += kThreads) {
    to[c] = rows.data[r * rows.stride + c] * scale;
  }
}

/// One block a row. The highest logit first, the lowest id of equals; then the sum; then the gradient.
__global__ void __launch_bounds__(kThreads)
    cross_entropy_kernel(FloatRows logits, const int32_t* labels, bool differentiates, RowLoss* losses) {
  __shared__ float values[kThreads];
  __shared__ int32_t ids[kThreads];
  const int t = static_cast<int>(threadIdx.x);
  float* row = logits.data + blockIdx.x * logits.stride;
  float highest = -INFINITY;
  int32_t best = INT32_MAX;
  for (int32_t c = t; c < logits.cols; c += kThreads) {
    if (row[c] > highest || best == INT32_MAX) highest = row[c], best = c;
  }
  values[t] = highest, ids[t] = best;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (t < half) {
      const float other = values[t + half];
      const int32_t id = ids[t + half];
      if (other > values[t] || (other == values[t] && id < ids[t])) values[t] = other, ids[t] = id;
    }
    __syncthreads();
  }
  highest = values[0], best = ids[0];
  __syncthreads();
  float sum = 0;
  for (int32_t c = t; c < logits.cols; c += kThreads) sum += expf(row[c] - highest);
  values[t] = sum;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (t < half) values[t] += values[t + half];
    __syncthreads();
  }
  sum = values[0];
  const int32_t label = labels[blockIdx.x];
  if (t == 0) {
    const float of_label = row[label] - highest;
    losses[blockIdx.x] = {logf(sum) - of_label, expf(of_label) / sum, best};
  }
  if (!differentiates) return;
  __syncthreads();
  const float factor = 1 / sum;
  for (int32_t c = t; c < logits.cols; c += kThreads) {
    row[c] = expf(row[c] - highest) * factor - (c == label ? 1.0F : 0.0F);
  }
}

}  // namespace

void train_rms_norm(cudaStream_t stream, const FloatRows& x, const float* weight, float eps, const FloatRows& out) {
  norm_kernel<<<blocks_for(x.rows, kWarps), kThreads, 0, stream>>>(x, weight, eps, out);
}

// d_x may be d_out, so it comes last: dx = s (w dy - x s^2 mean(w dy x)), dw = sum over rows of dy x s.
void train_rms_norm_gradient(cudaStream_t stream, const NormGradient& call) {
  const int32_t rows = max(32, (call.x.rows + kNormPartials - 1) / kNormPartials);
  const unsigned partials = blocks_for(call.x.rows, rows);
  const unsigned by_warp = blocks_for(call.x.rows, kWarps);
  norm_factors_kernel<<<by_warp, kThreads, 0, stream>>>(call);
  norm_weight_kernel<<<dim3(blocks_for(call.x.cols, 32), partials), kThreads, 0, stream>>>(call, rows);
  norm_weight_sum_kernel<<<blocks_for(call.x.cols, kThreads), kThreads, 0, stream>>>(call,
                                                                                     static_cast<int32_t>(partials));
  norm_gradient_kernel<<<by_warp, kThreads, 0, stream>>>(call);
}

void train_rope(cudaStream_t stream, const FloatRows& x, int32_t head_dim, const float* cos, const float* sin,
                const int32_t* positions, float sign) {
  rope_kernel<<<static_cast<unsigned>(x.rows), kThreads, 0, stream>>>(x, head_dim, cos, sin, positions, sign);
}

void train_silu_mul(cudaStream_t stream, const FloatRows& gate, const FloatRows& up, const FloatRows& out) {
  silu_kernel<<<static_cast<unsigned>(out.rows), kThreads, 0, stream>>>(gate, up, out);
}

void train_silu_mul_gradient(cudaStream_t stream, const FloatRows& d_out, const FloatRows& gate, const FloatRows& up,
                             const FloatRows& d_gate, const FloatRows& d_up) {
  silu_gradient_kernel<<<static_cast<unsigned>(d_out.rows), kThreads, 0, stream>>>(d_out, gate, up, d_gate, d_up);
}

void train_gather(cudaStream_t stream, const FloatRows& table, const int32_t* ids, float scale, const FloatRows& out) {
  gather_kernel<<<static_cast<unsigned>(out.rows), kThreads, 0, stream>>>(table, ids, scale, out);
}

void train_widen(cudaStream_t stream, const void* x, int64_t stride, const FloatRows& out) {
  widen_kernel<<<static_cast<unsigned>(out.rows), kThreads, 0, stream>>>(static_cast<const __nv_bfloat16*>(x), stride,
                                                                         out);
}

void train_scatter(cudaStream_t stream, const FloatRows& rows, const int32_t* ids, const float* scales,
                   const FloatRows& out) {
  scatter_kernel<<<static_cast<unsigned>(rows.rows), kThreads, 0, stream>>>(rows, ids, scales, out);
}

void train_cross_entropy(cudaStream_t stream, const FloatRows& logits, const int32_t* labels, bool differentiates,
                         RowLoss* losses) {
  cross_entropy_kernel<<<static_cast<unsigned>(logits.rows), kThreads, 0, stream>>>(logits, labels, differentiates,
                                                                                    losses);
}

}  // namespace ashlar::cuda
