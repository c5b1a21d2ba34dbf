// SPDX-License-Identifier: Apache-2.0
// What gated delta nets do with each row by itself: the convolution, norms and gates before the rows go through the
// state, the norm and the gate of the answers after that, and what the log keeps. Sums run in fixed orders.

#include "../kernels/device_math.cuh"
#include "delta_net.h"
#include "state_rows.cuh"

namespace ashlar::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kFinishThreads = 128;
constexpr int kWarps = kThreads / 32;

/// The inputs to the convolution of a row's sequence before the row: of rows of the call, of the log, of the state.
struct Past {
  int32_t slot = 0;
  int32_t rows_before = 0;  ///< of the sequence in this call, as far as the convolution reaches
  int32_t replays = 0;
  bool is_new = false;

  __device__ void find(const DeltaNetCall& call, int32_t row) {
    const Span& span = call.spans[call.tables[row]];
    slot = span.slot;
    rows_before = 0, replays = 0, is_new = false;
    const int32_t reach = call.taps - 1;
    while (rows_before < reach && !begins_span(call, row - rows_before)) ++rows_before;
    if (rows_before == reach) return;
    is_new = call.positions[row - rows_before] == 0;
    replays = is_new ? 0 : span.replays;
  }
  /// Of channel `c`, `back` rows before row `row`.
  __device__ float input(const DeltaNetCall& call, int32_t row, int32_t c, int32_t back) const {
    if (back <= rows_before) return load(call.in.data, int64_t{row - back} * call.in.stride + c, call.in.is_f32);
    back -= rows_before;
    if (back <= replays) return log_of(call, slot, replays - back)[c];
    back -= replays;
    if (is_new) return 0.0F;
    const float* const window = state_of(call, slot) + int64_t{call.n_v_heads} * call.k_dim * call.v_dim;
    return window[int64_t{call.taps - 1 - back} * call.channels + c];
  }
};

/// Sum of a[i] * b[i] by one warp, the same in all lanes.
__device__ float warp_dot(const float* a, const float* b, int32_t n) {
  float sum = 0;
  for (auto i = static_cast<int32_t>(threadIdx.x % 32); i < n; i += 32) sum = fmaf(a[i], b[i], sum);
  return warp_sum(sum);
}

/// Of a row that may be among the first of its sequence in the call. Few are: not inlined.
__device__ __noinline__ float convolved(const DeltaNetCall& call, const Past& past, int32_t row, int32_t channel) {
  float sum = 0;
  for (int32_t t = 0; t < call.taps; ++t) {
    const float weight = call.tap_weights[int64_t{t} * call.channels + channel];
    sum = fmaf(past.input(call, row, channel, call.taps - 1 - t), weight, sum);
  }
  return gated(sum, 1.0F);
}

/// The convolution of one channel over rows [first, first + kRows) of a call.
template <int kRows>
struct Convolution {
  static constexpr int kUsual = 4;  ///< taps of nearly all models: inputs and weights are in registers

  const DeltaNetCall& call;
  int32_t first, channel;
  float inputs[kRows + kUsual - 1], weights[kUsual];

  __device__ Convolution(const DeltaNetCall& c, int32_t first_row, int32_t at)
      : call(c), first(first_row), channel(at) {
    if (call.taps != kUsual) return;
#pragma unroll
    for (int t = 0; t < kUsual; ++t) weights[t] = call.tap_weights[int64_t{t} * call.channels + channel];
#pragma unroll
    for (int i = 0; i < kRows + kUsual - 1; ++i) {
      const int32_t row = first + i - (kUsual - 1);
      const bool exists = row >= 0 && row < call.rows;
      inputs[i] = exists ? load(call.in.data, row * call.in.stride + channel, call.in.is_f32) : 0.0F;
    }
  }
  /// Of row first + r, a constant in unrolled loops.
  __device__ float at(const Past& past, int32_t r) const {
    if (call.taps != kUsual || past.rows_before < kUsual - 1) return convolved(call, past, first + r, channel);
    float sum = 0;
#pragma unroll
    for (int t = 0; t < kUsual; ++t) sum = fmaf(inputs[r + t], weights[t], sum);
    return gated(sum, 1.0F);
  }
};

/// Queries and keys of a row as they are used, and its gates, by one warp. `q`, `k`: [k_dim] each.
__device__ void prepare_gates(const DeltaNetCall& call, int32_t row, int32_t k_head, float* q, float* k) {
  const PreparedRow at = call.prepared_row();
  float* const to = call.prepared + row * at.floats();
  const auto lane = static_cast<int32_t>(threadIdx.x % 32);
  const float root = sqrtf(static_cast<float>(call.k_dim));
  const float q_scale = 1.0F / sqrtf(warp_dot(q, q, call.k_dim) + 1e-6F) / root;
  const float k_scale = 1.0F / sqrtf(warp_dot(k, k, call.k_dim) + 1e-6F);
  for (int32_t i = lane; i < at.k_pad; i += 32) {
    const bool is_real = i < call.k_dim;
    if (is_real) q[i] *= q_scale, k[i] *= k_scale;
    to[at.queries(k_head) + i] = is_real ? q[i] : 0.0F;
    to[at.keys(k_head) + i] = is_real ? k[i] : 0.0F;
  }
  const float product = warp_dot(k, q, call.k_dim);  // of numbers that each lane wrote itself
  const int32_t heads = call.n_v_heads / call.n_k_heads;
  for (int32_t h = lane; h < heads; h += 32) {
    const int32_t head = k_head * heads + h;
    const int64_t b = row * call.in.stride + call.channels + int64_t{call.n_v_heads} * call.v_dim + head;
    const float a = load(call.in.data, b + call.n_v_heads, call.in.is_f32) + call.bias[head];
    float4 gates = {};
    gates.x = expf(call.decay[head] * (a > 20 ? a : log1pf(expf(a))));
    gates.y = sigmoid(load(call.in.data, b, call.in.is_f32));
    gates.z = product;
    *reinterpret_cast<float4*>(to + at.gates(head)) = gates;
  }
}

/// A block has kRows rows of a key head, with the value heads that are its own.
template <int kRows>
__global__ void __launch_bounds__(kThreads, 4) prepare_kernel(const __grid_constant__ DeltaNetCall call) {
  let_successor_start();
  extern __shared__ float memory[];  // queries and keys: [kRows, 2, k_dim]
  __shared__ Past pasts[kRows];
  const PreparedRow at = call.prepared_row();
  const auto first = static_cast<int32_t>(blockIdx.x) * kRows, k_head = static_cast<int32_t>(blockIdx.y);
  const int32_t n = min(kRows, call.rows - first), heads = call.n_v_heads / call.n_k_heads;
  const auto thread = static_cast<int32_t>(threadIdx.x);
  if (thread < n) pasts[thread].find(call, first + thread);
  __syncthreads();
  wait_for_predecessors();

  const int32_t keys = 2 * call.k_dim;
  for (int32_t i = thread; i < keys + heads * call.v_dim; i += kThreads) {
    const int32_t head = k_head * heads + (i - keys) / call.v_dim, j = (i - keys) % call.v_dim;
    const int32_t c = i >= keys         ? 2 * call.n_k_heads * call.k_dim + head * call.v_dim + j
                      : i >= call.k_dim ? (call.n_k_heads + k_head - 1) * call.k_dim + i
                                        : k_head * call.k_dim + i;
    const Convolution<kRows> convolution(call, first, c);
#pragma unroll
    for (int32_t r = 0; r < kRows; ++r) {
      if (r >= n) break;
      const float value = convolution.at(pasts[r], r);
      if (i < keys) {
        memory[r * keys + i] = value;
      } else {
        call.prepared[(first + r) * at.floats() + at.values(head) + j] = value;
      }
    }
  }
  __syncthreads();
  for (int32_t r = thread / 32; r < n; r += kWarps) {
    prepare_gates(call, first + r, k_head, memory + r * keys, memory + r * keys + call.k_dim);
  }
}

template <int kRows>
void prepare(cudaStream_t stream, const DeltaNetCall& call) {
  const dim3 grid(blocks_for(call.rows, kRows), static_cast<unsigned>(call.n_k_heads));
  const size_t bytes = static_cast<size_t>(kRows * 2 * call.k_dim) * sizeof(float);
  start(stream, {grid, kThreads, bytes}, prepare_kernel<kRows>, call);
}

/// What the row did to the state, to the log: all blocks of a row have a part of it.
__device__ void write_log(const DeltaNetCall& call, const PreparedRow& at, int32_t row, const float* prepared) {
  float* const log = log_of(call, call.spans[call.tables[row]].slot, call.log_row[row]);
  const auto thread = static_cast<int32_t>(blockIdx.y * kFinishThreads + threadIdx.x);
  const auto step = static_cast<int32_t>(gridDim.y * kFinishThreads);
  for (int32_t c = thread; c < call.channels; c += step) {
    log[c] = load(call.in.data, row * call.in.stride + c, call.in.is_f32);
  }
  float* const keys = log + call.channels;
  const int32_t k_width = call.n_k_heads * call.k_dim;
  for (int32_t i = thread; i < k_width; i += step) keys[i] = prepared[at.keys(i / call.k_dim) + i % call.k_dim];
  float* const factors = keys + k_width + int64_t{call.n_v_heads} * call.v_dim;
  for (int32_t h = thread; h < call.n_v_heads; h += step) factors[h] = prepared[at.gates(h)];
}

/// A warp has a row of a value head.
__global__ void __launch_bounds__(kFinishThreads) finish_kernel(const __grid_constant__ DeltaNetCall call) {
  begin_kernel();
  const PreparedRow at = call.prepared_row();
  const auto row = static_cast<int32_t>(blockIdx.x);
  const float* const prepared = call.prepared + row * at.floats();
  if (call.log_row[row] >= 0) write_log(call, at, row, prepared);
  const auto head = static_cast<int32_t>(blockIdx.y * (kFinishThreads / 32) + threadIdx.x / 32);
  if (head >= call.n_v_heads) return;
  const float* const answers = prepared + at.values(head);
  const float mean = warp_dot(answers, answers, call.v_dim) / static_cast<float>(call.v_dim);
  const float scale = 1.0F / sqrtf(mean + call.eps);
  const int32_t heads = call.n_v_heads / call.n_k_heads;  // as DeltaShape::output_head
  const int32_t output_head = call.outputs_by_turns ? head % heads * call.n_k_heads + head / heads : head;
  const int64_t z_at = row * call.in.stride + call.channels + int64_t{head} * call.v_dim;
  const int64_t to = row * call.out.stride + int64_t{output_head} * call.v_dim;
  for (auto j = static_cast<int32_t>(threadIdx.x % 32); j < call.v_dim; j += 32) {
    const float z = load(call.in.data, z_at + j, call.in.is_f32);
    store(call.out.data, to + j, call.out.is_f32, gated(z, answers[j] * scale * call.norm[j]));
  }
}

}  // namespace

void prepare_rows(cudaStream_t stream, const DeltaNetCall& call) {
  call.rows <= 64 ? prepare<1>(stream, call) : prepare<kWarps>(stream, call);  // few rows: as many blocks as there are
}

void finish_rows(cudaStream_t stream, const DeltaNetCall& call) {
  const dim3 grid(static_cast<unsigned>(call.rows), blocks_for(call.n_v_heads, kFinishThreads / 32));
  start(stream, {grid, kFinishThreads}, finish_kernel, call);
}

}  // namespace ashlar::cuda
