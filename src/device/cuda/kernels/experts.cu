// SPDX-License-Identifier: Apache-2.0
// Mixtures of experts: the choice of a row (a warp each), sorting choices by expert, and adding answers up.

#include <math_constants.h>

#include "device_math.cuh"

namespace ashlar::cuda {
namespace {

constexpr int kThreads = 256;

/// Index of the highest of n values that are not taken, the lowest of equals, in every lane. `taken` marks it.
__device__ int32_t take_highest(const float* values, uint8_t* taken, int32_t n, int lane) {
  float best = 0;
  int32_t id = -1;
  for (int32_t i = lane; i < n; i += 32) {
    if (taken[i] != 0 || (id >= 0 && !(values[i] > best))) continue;
    best = values[i], id = i;
  }
  for (int distance = 16; distance > 0; distance /= 2) {
    const float other = __shfl_xor_sync(~0u, best, distance);
    const int32_t other_id = __shfl_xor_sync(~0u, id, distance);
    if (other_id >= 0 && (id < 0 || other > best || (other == best && other_id < id))) best = other, id = other_id;
  }
  __syncwarp();
  if (lane == 0) taken[id] = 1;
  __syncwarp();
  return id;
}

// Scores in double and rounded once, sums in the order of the experts, as the reference.
__global__ void __launch_bounds__(32) route_kernel(const __grid_constant__ RouteCall call) {
  extern __shared__ double exponentials[];  // [n], then floats
  begin_kernel();
  const int32_t n = call.logits.cols, size = n / call.n_groups;
  const int lane = static_cast<int>(threadIdx.x);
  auto* const scores = reinterpret_cast<float*>(exponentials + n);
  float* const ranks = scores + n;
  float* const groups = ranks + n;                                         // [n_groups]
  auto* const taken = reinterpret_cast<uint8_t*>(groups + call.n_groups);  // [n], then [n_groups]
  const int64_t row = blockIdx.x;
  const auto* const logits = static_cast<const float*>(call.logits.data) + row * call.logits.stride;
  float highest = -CUDART_INF_F;
  for (int32_t e = lane; e < n; e += 32) highest = fmaxf(highest, logits[e]);
  highest = warp_max(highest);
  for (int32_t e = lane; e < n; e += 32) {
    const double logit = logits[e];
    exponentials[e] = call.sigmoid ? 1.0 / (1.0 + exp(-logit)) : exp(logit - static_cast<double>(highest));
  }
  __syncwarp();
  double total = 0;
#pragma unroll 8
  for (int32_t e = 0; e < (call.sigmoid ? 0 : n); ++e) total += exponentials[e];
  for (int32_t e = lane; e < n; e += 32) {
    scores[e] = static_cast<float>(call.sigmoid ? exponentials[e] : exponentials[e] / total);
    const float rank = call.bias != nullptr ? scores[e] + call.bias[e] : scores[e];
    ranks[e] = isnan(rank) ? -CUDART_INF_F : rank;
    taken[e] = 0;
  }
  __syncwarp();
  const bool some_groups = call.top_groups < call.n_groups;
  for (int32_t g = lane; some_groups && g < call.n_groups; g += 32) {
    float best = -CUDART_INF_F, second = -CUDART_INF_F;
    for (int32_t i = g * size; i < (g + 1) * size; ++i) {
      if (ranks[i] > best) {
        second = best, best = ranks[i];
      } else if (ranks[i] > second) {
        second = ranks[i];
      }
    }
    groups[g] = size > 1 ? best + second : best;
    taken[n + g] = 0;
  }
  __syncwarp();
  for (int32_t i = 0; some_groups && i < call.top_groups; ++i) take_highest(groups, taken + n, call.n_groups, lane);
  for (int32_t e = lane; some_groups && e < n; e += 32) {
    if (taken[n + e / size] == 0) ranks[e] = -CUDART_INF_F;
  }
  __syncwarp();
  auto* const chosen = reinterpret_cast<int32_t*>(exponentials);  // [top_k]: they have served their purpose
  float sum = 0;
  for (int32_t j = 0; j < call.top_k; ++j) {
    const int32_t e = take_highest(ranks, taken, n, lane);
    sum += scores[e];
    if (lane == 0) chosen[j] = e;
  }
  __syncwarp();
  for (int32_t j = lane; j < call.top_k; j += 32) {
    const int32_t e = chosen[j];
    float weight = scores[e];
    if (call.normalise) weight /= sum + 1e-20F;
    weight *= call.scale;
    if (call.expert_scale != nullptr) weight *= call.expert_scale[e];
    call.experts[row * call.top_k + j] = e;
    call.weights[row * call.top_k + j] = weight;
  }
}

/// The sum of `value` over the threads before this one, and of all. `warps`: [kThreads / 32] of shared memory.
__device__ int32_t sum_before(int32_t value, int32_t* warps, int32_t& all) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  int32_t sum = value;
  for (int distance = 1; distance < 32; distance *= 2) {
    const int32_t other = __shfl_up_sync(~0u, sum, distance);
    if (lane >= distance) sum += other;
  }
  __syncthreads();
  if (lane == 31) warps[warp] = sum;
  __syncthreads();
  int32_t before = 0;
  all = 0;
  for (int w = 0; w < kThreads / 32; ++w) {
    if (w < warp) before += warps[w];
    all += warps[w];
  }
  return before + sum - value;
}

__global__ void __launch_bounds__(kThreads)
    group_kernel(const int32_t* chosen, int32_t choices, int32_t n_experts, int32_t tile_rows, int32_t tiles,
                 int32_t* rows, int32_t* experts) {
  extern __shared__ int32_t next[];  // [n_experts]: choices of an expert, then the place of its next one
  __shared__ int32_t warps[kThreads / 32];
  begin_kernel();
  for (int32_t e = static_cast<int32_t>(threadIdx.x); e < n_experts; e += kThreads) next[e] = 0;
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < tiles * tile_rows; i += kThreads) rows[i] = -1;
  __syncthreads();
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < choices; i += kThreads) {
    if (chosen[i] < 0 || chosen[i] >= n_experts) __trap();
    atomicAdd(&next[chosen[i]], 1);
  }
  __syncthreads();
  int32_t used = 0;
  for (int32_t first = 0; first < n_experts; first += kThreads) {
    const int32_t e = first + static_cast<int32_t>(threadIdx.x);
    const int32_t own = e < n_experts ? (next[e] + tile_rows - 1) / tile_rows : 0;
    int32_t all;
    const int32_t begin = used + sum_before(own, warps, all);
    for (int32_t i = 0; i < own; ++i) experts[begin + i] = e;
    if (e < n_experts) next[e] = begin * tile_rows;
    used += all;
  }
  for (int32_t i = used + static_cast<int32_t>(threadIdx.x); i < tiles; i += kThreads) experts[i] = -1;
  __syncthreads();
  // In which order choices fill a tile decides about nothing.
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < choices; i += kThreads) {
    rows[atomicAdd(&next[chosen[i]], 1)] = i;
  }
}

__global__ void __launch_bounds__(kThreads) gather_kernel(Matrix x, const int32_t* places, int32_t top_k, Matrix to) {
  begin_kernel();
  const int32_t place = static_cast<int32_t>(blockIdx.x), choice = places[place];
  if (choice < 0) return;
  const auto* const from =
      reinterpret_cast<const uint4*>(static_cast<const __nv_bfloat16*>(x.data) + choice / top_k * x.stride);
  auto* const row = reinterpret_cast<uint4*>(static_cast<__nv_bfloat16*>(to.data) + place * to.stride);
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < to.cols / 8; i += kThreads) row[i] = from[i];
}

__global__ void __launch_bounds__(kThreads)
    gate_kernel(Matrix products, const int32_t* experts, const float* bias, GateRule rule, Matrix out) {
  begin_kernel();
  const int64_t row = blockIdx.x;
  const auto* const gates = static_cast<const float*>(products.data) + row * products.stride;
  const float* const more = bias != nullptr ? bias + int64_t{experts[row]} * products.cols : nullptr;
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < out.cols; i += kThreads) {
    float g = gates[i], u = gates[out.cols + i];
    if (more != nullptr) g += more[i], u += more[out.cols + i];
    if (rule.limit > 0) g = fminf(g, rule.limit), u = fminf(fmaxf(u, -rule.limit), rule.limit) + 1;
    store(out.data, row * out.stride + i, out.is_f32, (rule.gelu ? gelu(g) : g / (1.0F + expf(-rule.alpha * g))) * u);
  }
}

__global__ void __launch_bounds__(kThreads)
    combine_kernel(Matrix answers, Choices choices, const float* bias, Matrix out) {
  begin_kernel();
  constexpr int kAtOnce = 8;  // answers on their way
  const int64_t row = blockIdx.x, first = row * choices.top_k;
  const int32_t i = static_cast<int32_t>(blockIdx.y) * kThreads + static_cast<int32_t>(threadIdx.x);
  if (i >= out.cols) return;
  const auto* const from = static_cast<const float*>(answers.data) + first * answers.stride + i;
  float sum = load(out.data, row * out.stride + i, out.is_f32);
  for (int32_t j = 0; j < choices.top_k; j += kAtOnce) {
    float found[kAtOnce], weights[kAtOnce];
#pragma unroll
    for (int a = 0; a < kAtOnce; ++a) {
      const bool is_one = j + a < choices.top_k;
      found[a] = is_one ? from[(j + a) * answers.stride] : 0;
      weights[a] = is_one ? choices.weights[first + j + a] : 0;
      if (is_one && bias != nullptr) found[a] += bias[int64_t{choices.experts[first + j + a]} * out.cols + i];
    }
#pragma unroll
    for (int a = 0; a < kAtOnce; ++a) {
      if (j + a < choices.top_k) sum += weights[a] * found[a];
    }
  }
  store(out.data, row * out.stride + i, out.is_f32, sum);
}

}  // namespace

void route(cudaStream_t stream, const RouteCall& call) {
  const auto n = static_cast<size_t>(call.logits.cols), groups = static_cast<size_t>(call.n_groups);
  const size_t shared = n * (sizeof(double) + 2 * sizeof(float) + 1) + groups * (sizeof(float) + 1);
  start(stream, {rows_of(call.logits), 32, shared}, route_kernel, call);
}

int32_t max_tiles(int32_t choices, int32_t n_experts, int32_t tile_rows) {
  const int32_t alone = choices < n_experts ? choices : n_experts;
  return alone + (choices - alone) / tile_rows;
}

void group_by_expert(cudaStream_t stream, const int32_t* chosen, int32_t choices, int32_t n_experts, int32_t tile_rows,
                     int32_t* rows, int32_t* experts) {
  start(stream, {1, kThreads, sizeof(int32_t) * static_cast<size_t>(n_experts)}, group_kernel, chosen, choices,
        n_experts, tile_rows, max_tiles(choices, n_experts, tile_rows), rows, experts);
}

void gather_places(cudaStream_t stream, const Matrix& x, const int32_t* places, int32_t top_k, const Matrix& to) {
  start(stream, {rows_of(to), kThreads}, gather_kernel, x, places, top_k, to);
}

void gate_experts(cudaStream_t stream, const Matrix& products, const int32_t* experts, const float* bias,
                  const GateRule& rule, const Matrix& out) {
  start(stream, {rows_of(out), kThreads}, gate_kernel, products, experts, bias, rule, out);
}

void combine_experts(cudaStream_t stream, const Matrix& answers, const Choices& choices, const float* bias,
                     const Matrix& out) {
  start(stream, {dim3(rows_of(out), blocks_for(out.cols, kThreads)), kThreads}, combine_kernel, answers, choices, bias,
        out);
}

}  // namespace ashlar::cuda
