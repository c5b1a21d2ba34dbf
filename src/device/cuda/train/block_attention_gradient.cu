// SPDX-License-Identifier: Apache-2.0
// Backward of the blocks' attention: with P = softmax(S), dV = P^T dO, dP = dO V^T, dS = P (dP - mean), where mean is
// the product of a row's dO and output; dQ = dS K and dK = dS^T Q. Probabilities are computed anew from the log sums.
// Queries and keys have a kernel each, so that every sum has one owner and a fixed order.

#include "block_attention.cuh"
#include "device/cuda/once_per_device.h"
#include "tile_attention.cuh"

namespace ashlar::cuda {
namespace block_attention {
namespace {

template <int kPieces>
__global__ void __launch_bounds__(kThreads) query_kernel(TrainAttention call, float scale) {
  constexpr int kColumns = 32 * kPieces;
  extern __shared__ __align__(16) float shared[];
  float* const q = shared;
  float* const d_out = q + kRows * kColumns;
  float* const k = d_out + kRows * kColumns;
  float* const v = k + kKeys * (kColumns + kPad);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const auto b = static_cast<int32_t>(blockIdx.x), h = static_cast<int32_t>(blockIdx.y);
  const auto first = static_cast<int32_t>(blockIdx.z) * kRows;
  const int32_t column = h * call.head_dim;
  const int32_t kv_column = h / (call.heads / call.kv_heads) * call.head_dim;
  const TrainBlock block = call.blocks[b];
  const int64_t first_row = int64_t{b} * call.block + first;
  load_rows<kRows, kColumns, 0>(call.q, first_row, call.block - first, column, call.head_dim, scale, q);
  load_rows<kRows, kColumns, 0>(call.d_out, first_row, call.block - first, column, call.head_dim, 1, d_out);
  __syncthreads();
  float log_sums[kRowsOfWarp], means[kRowsOfWarp], d_q[kRowsOfWarp][kPieces] = {};
#pragma unroll
  for (int r = 0; r < kRowsOfWarp; ++r) {
    const int32_t row = warp * kRowsOfWarp + r;
    const bool is_there = first + row < call.block;
    float mean = 0;
    for (int c = lane; is_there && c < call.head_dim; c += 32) {
      const int64_t at = (first_row + row) * call.out.stride + column + c;
      mean = fmaf(d_out[row * kColumns + c], load(call.out.data, at, call.out.is_f32), mean);
    }
    means[r] = warp_sum(mean);
    log_sums[r] = is_there ? log_sum(call, first_row + row, h) : 0.0F;
    if (is_there && lane == 0) call.means[(first_row + row) * call.heads + h] = means[r];
  }

  for_keys(call, b, first, [&](int64_t key, int32_t n, int32_t t) {
    __syncthreads();
    load_rows<kKeys, kColumns, kPad>(call.k, key, n, kv_column, call.head_dim, 1, k);
    load_rows<kKeys, kColumns, kPad>(call.v, key, n, kv_column, call.head_dim, 1, v);
    __syncthreads();
    float scores[kRowsOfWarp], d_scores[kRowsOfWarp];
    products<kColumns>(q, k, call.head_dim, scores);
    products<kColumns>(d_out, v, call.head_dim, d_scores);
#pragma unroll
    for (int r = 0; r < kRowsOfWarp; ++r) {
      const int32_t row = first + warp * kRowsOfWarp + r;
      const bool visible = row < call.block && lane < n && sees_key(call, block, row, t, lane);
      const float p = visible ? expf(scores[r] - log_sums[r]) : 0.0F;
      d_scores[r] = p * (d_scores[r] - means[r]) * scale;
    }
#pragma unroll 8
    for (int j = 0; j < kKeys; ++j) {
#pragma unroll
      for (int r = 0; r < kRowsOfWarp; ++r) {
        const float d = __shfl_sync(~0u, d_scores[r], j);
#pragma unroll
        for (int i = 0; i < kPieces; ++i) {
          d_q[r][i] = fmaf(d, k[j * (kColumns + kPad) + lane + 32 * i], d_q[r][i]);
        }
      }
    }
  });

#pragma unroll
  for (int r = 0; r < kRowsOfWarp; ++r) {
    const int32_t row = warp * kRowsOfWarp + r;
    if (first + row >= call.block) continue;
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      const int c = lane + 32 * i;
      if (c >= call.head_dim) continue;
      store(call.d_q.data, (first_row + row) * call.d_q.stride + column + c, call.d_q.is_f32, d_q[r][i]);
    }
  }
}

/// The keys of a block of threads: context rows, which many blocks see, or rows of block `own`.
struct Keys {
  int64_t first = 0;
  int32_t n = 0;
  int32_t own = -1;
};

__device__ __forceinline__ Keys keys_of(const TrainAttention& call) {
  const int32_t of_context = (call.context_rows + kKeys - 1) / kKeys;
  const auto tile = static_cast<int32_t>(blockIdx.x);
  if (tile < of_context) return {int64_t{tile} * kKeys, min(kKeys, call.context_rows - tile * kKeys), -1};
  const int32_t of_block = (call.block + kKeys - 1) / kKeys;
  const int32_t own = (tile - of_context) / of_block;
  const int32_t o = (tile - of_context) % of_block * kKeys;
  return {int64_t{call.context_rows} + int64_t{own} * call.block + o, min(kKeys, call.block - o), own};
}

template <int kPieces>
__global__ void __launch_bounds__(kThreads) key_kernel(TrainAttention call, float scale) {
  constexpr int kColumns = 32 * kPieces;
  constexpr int kKeysOfWarp = kKeys / kWarps;
  extern __shared__ __align__(16) float shared[];
  float* const k = shared;
  float* const v = k + kKeys * (kColumns + kPad);
  float* const q = v + kKeys * (kColumns + kPad);
  float* const d_out = q + kRows * kColumns;
  float* const weights = d_out + kRows * kColumns;  // [kRows, kKeys]
  float* const d_scores = weights + kRows * kKeys;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const auto kv_head = static_cast<int32_t>(blockIdx.y);
  const int32_t group = call.heads / call.kv_heads;
  const int32_t kv_column = kv_head * call.head_dim;
  const Keys keys = keys_of(call);
  load_rows<kKeys, kColumns, kPad>(call.k, keys.first, keys.n, kv_column, call.head_dim, 1, k);
  load_rows<kKeys, kColumns, kPad>(call.v, keys.first, keys.n, kv_column, call.head_dim, 1, v);
  float d_k[kKeysOfWarp][kPieces] = {}, d_v[kKeysOfWarp][kPieces] = {};

  const auto add_rows = [&](int32_t b, const TrainBlock& block, int32_t h, int32_t first) {
    const int64_t first_row = int64_t{b} * call.block + first;
    const int32_t column = h * call.head_dim;
    __syncthreads();
    load_rows<kRows, kColumns, 0>(call.q, first_row, call.block - first, column, call.head_dim, 1, q);
    load_rows<kRows, kColumns, 0>(call.d_out, first_row, call.block - first, column, call.head_dim, 1, d_out);
    __syncthreads();
    float p[kRowsOfWarp], d[kRowsOfWarp];
    products<kColumns>(q, k, call.head_dim, p);
    products<kColumns>(d_out, v, call.head_dim, d);
    const int32_t t = static_cast<int32_t>(keys.first - block.first) + lane;
    const int32_t o = static_cast<int32_t>(keys.first - call.context_rows - int64_t{b} * call.block) + lane;
#pragma unroll
    for (int r = 0; r < kRowsOfWarp; ++r) {
      const int32_t at = warp * kRowsOfWarp + r, row = first + at;
      const bool of_context = t >= 0 && t < block.n && is_in_window(call, block, row, t);
      const bool is_seen = keys.own >= 0 ? sees_own(call, row, o) : of_context;
      const bool visible = row < call.block && lane < keys.n && is_seen;
      float weight = 0, d_score = 0;
      if (visible) {
        weight = expf(p[r] * scale - log_sum(call, first_row + at, h));
        d_score = weight * (d[r] - call.means[(first_row + at) * call.heads + h]) * scale;
      }
      weights[at * kKeys + lane] = weight;
      d_scores[at * kKeys + lane] = d_score;
    }
    __syncthreads();
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int i = 0; i < kPieces; ++i) {
        const float of_q = q[r * kColumns + lane + 32 * i], of_out = d_out[r * kColumns + lane + 32 * i];
#pragma unroll
        for (int j = 0; j < kKeysOfWarp; ++j) {
          d_v[j][i] = fmaf(weights[r * kKeys + warp * kKeysOfWarp + j], of_out, d_v[j][i]);
          d_k[j][i] = fmaf(d_scores[r * kKeys + warp * kKeysOfWarp + j], of_q, d_k[j][i]);
        }
      }
    }
  };
  const int32_t begin = keys.own < 0 ? 0 : keys.own, end = keys.own < 0 ? call.n_blocks : keys.own + 1;
  for (int32_t b = begin; b < end; ++b) {
    const TrainBlock block = call.blocks[b];
    if (keys.own < 0) {
      const int64_t last = keys.first + keys.n - 1;
      if (block.first > last || int64_t{block.first} + block.n <= keys.first) continue;
      if (!is_in_window(call, block, 0, static_cast<int32_t>(last - block.first))) continue;
    }
    for (int32_t h = kv_head * group; h < (kv_head + 1) * group; ++h) {
      for (int32_t first = 0; first < call.block; first += kRows) add_rows(b, block, h, first);
    }
  }

#pragma unroll
  for (int j = 0; j < kKeysOfWarp; ++j) {
    const int at = warp * kKeysOfWarp + j;
    if (at >= keys.n) continue;
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      const int c = lane + 32 * i;
      if (c >= call.head_dim) continue;
      store(call.d_k.data, (keys.first + at) * call.d_k.stride + kv_column + c, call.d_k.is_f32, d_k[j][i]);
      store(call.d_v.data, (keys.first + at) * call.d_v.stride + kv_column + c, call.d_v.is_f32, d_v[j][i]);
    }
  }
}

template <int kPieces>
void backward(cudaStream_t stream, const TrainAttention& call) {
  constexpr int kColumns = 32 * kPieces;
  constexpr int kBytes = 4 * 2 * (kRows * kColumns + kKeys * (kColumns + kPad));
  constexpr int kKeyBytes = kBytes + 4 * 2 * kRows * kKeys;
  const float scale = 1 / sqrtf(static_cast<float>(call.head_dim));
  if (call.n_blocks > 0) {
    static OncePerDevice query_kernel_allowed;
    allow_shared_bytes(query_kernel_allowed, query_kernel<kPieces>, kBytes);
    const dim3 grid(static_cast<unsigned>(call.n_blocks), static_cast<unsigned>(call.heads),
                    static_cast<unsigned>((call.block + kRows - 1) / kRows));
    query_kernel<kPieces><<<grid, kThreads, kBytes, stream>>>(call, scale);
  }
  static OncePerDevice key_kernel_allowed;
  allow_shared_bytes(key_kernel_allowed, key_kernel<kPieces>, kKeyBytes);
  const int32_t tiles = (call.context_rows + kKeys - 1) / kKeys + call.n_blocks * ((call.block + kKeys - 1) / kKeys);
  const dim3 grid(static_cast<unsigned>(tiles), static_cast<unsigned>(call.kv_heads));
  key_kernel<kPieces><<<grid, kThreads, kKeyBytes, stream>>>(call, scale);
}

}  // namespace
}  // namespace block_attention

void train_attention_gradient(cudaStream_t stream, const TrainAttention& call) {
  using namespace block_attention;
  if (tile_attention::takes_gradients(call)) return tile_attention::backward(stream, call);
  if (call.head_dim <= 32) return backward<1>(stream, call);
  if (call.head_dim <= 64) return backward<2>(stream, call);
  if (call.head_dim <= 128) return backward<4>(stream, call);
  backward<8>(stream, call);
}

}  // namespace ashlar::cuda
