// SPDX-License-Identifier: Apache-2.0
// Convolutions and edges of drafters' heads, and attention among candidates. A block of threads has a row.

#include "device_math.cuh"

namespace ashlar::cuda {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads) conv_kernel(const __grid_constant__ ConvCall call) {
  begin_kernel();
  const auto row = static_cast<int32_t>(blockIdx.x);
  const int32_t groups = call.x.cols / call.group;
  int32_t taps = 1;
  while (taps < call.taps && taps <= row && call.tables[row - taps] == call.tables[row]) ++taps;
  for (int32_t c = static_cast<int32_t>(threadIdx.x); c < call.x.cols; c += kThreads) {
    float sum = 0;
    for (int32_t t = 0; t < taps; ++t) {
      const float own =
          load(call.dynamic.data, row * call.dynamic.stride + t * groups + c / call.group, call.dynamic.is_f32);
      const float weight = call.base[int64_t{t} * call.x.cols + c] + own;
      sum += weight * load(call.x.data, (row - t) * call.x.stride + c, call.x.is_f32);
    }
    const int64_t at = row * call.out.stride + c;
    store(call.out.data, at, call.out.is_f32, call.add ? load(call.out.data, at, call.out.is_f32) + sum : sum);
  }
}

/// A warp has a pair of candidates at a time, whose sum its lanes share.
__global__ void __launch_bounds__(kThreads) edges_kernel(const __grid_constant__ EdgesCall call) {
  begin_kernel();
  const auto row = static_cast<int64_t>(blockIdx.x);
  const int32_t block = call.begins[row], n = call.n;
  const auto lane = static_cast<int32_t>(threadIdx.x % 32), warp = static_cast<int32_t>(threadIdx.x / 32);
  const Matrix& from = block >= 0 ? call.anchors : call.before;
  for (int32_t pair = warp; pair < (block >= 0 ? n : n * n); pair += kThreads / 32) {
    const int32_t a = pair / n, b = pair % n;
    const int64_t before = (block >= 0 ? block : (row - 1) * n + a) * from.stride,
                  after = (row * n + b) * call.after.stride;
    float sum = 0;
    for (int32_t i = lane; i < call.hidden.cols; i += 32) {
      const float of_row = load(call.hidden.data, row * call.hidden.stride + i, call.hidden.is_f32);
      sum += load(from.data, before + i, from.is_f32) * of_row * load(call.after.data, after + i, call.after.is_f32);
    }
    sum = warp_sum(sum);
    if (lane == 0) {
      static_cast<float*>(call.out.data)[row * call.out.stride + pair] = call.logits[row * n + b] + call.scale * sum;
    }
  }
}

/// A block of threads has a head of a row. Keys are shared out to warps, whose lanes share a product; then each thread
/// has columns of the sum over all keys, in their order.
__global__ void __launch_bounds__(kThreads) candidates_kernel(const __grid_constant__ CandidateAttentionCall call) {
  begin_kernel();
  __shared__ float scores[kMaxBlockCandidates];
  const auto row = static_cast<int32_t>(blockIdx.x), head = static_cast<int32_t>(blockIdx.y);
  const auto lane = static_cast<int32_t>(threadIdx.x % 32), warp = static_cast<int32_t>(threadIdx.x / 32);
  const int32_t cols = call.out.cols, width = cols / call.heads, position = row / call.n;
  const int32_t first = call.first[position] * call.n, keys = call.end[position] * call.n - first;
  const float* const bias = call.bias + int64_t{head} * (2 * call.reach + 1) + call.reach;
  const float scale = 1.0F / sqrtf(static_cast<float>(width));
  const int64_t query = row * call.qkv.stride + head * width;
  for (int32_t j = warp; j < keys; j += kThreads / 32) {
    const int64_t key = int64_t{first + j} * call.qkv.stride + cols + head * width;
    float sum = 0;
    for (int32_t i = lane; i < width; i += 32) {
      sum = fmaf(load(call.qkv.data, query + i, call.qkv.is_f32), load(call.qkv.data, key + i, call.qkv.is_f32), sum);
    }
    sum = warp_sum(sum);
    if (lane == 0) scores[j] = sum * scale + bias[position - (first + j) / call.n];
  }
  __syncthreads();
  float highest = -INFINITY;
  for (int32_t j = lane; j < keys; j += 32) highest = fmaxf(highest, scores[j]);
  highest = warp_max(highest);
  __syncthreads();
  for (auto j = static_cast<int32_t>(threadIdx.x); j < keys; j += kThreads) scores[j] = expf(scores[j] - highest);
  __syncthreads();
  for (auto i = static_cast<int32_t>(threadIdx.x); i < width; i += kThreads) {
    float sum = 0, weights = 0;
    for (int32_t j = 0; j < keys; ++j) {
      const int64_t value = int64_t{first + j} * call.qkv.stride + 2 * cols + head * width + i;
      sum = fmaf(scores[j], load(call.qkv.data, value, call.qkv.is_f32), sum);
      weights += scores[j];
    }
    store(call.out.data, row * call.out.stride + head * width + i, call.out.is_f32, sum / weights);
  }
}

}  // namespace

void grouped_conv(cudaStream_t stream, const ConvCall& call) {
  start(stream, {rows_of(call.out), kThreads}, conv_kernel, call);
}

void score_edges(cudaStream_t stream, const EdgesCall& call) {
  start(stream, {rows_of(call.out), kThreads}, edges_kernel, call);
}

void candidate_attention(cudaStream_t stream, const CandidateAttentionCall& call) {
  start(stream, {dim3(rows_of(call.out), static_cast<unsigned>(call.heads)), kThreads}, candidates_kernel, call);
}

}  // namespace ashlar::cuda
