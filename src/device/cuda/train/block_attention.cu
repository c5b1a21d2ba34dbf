// SPDX-License-Identifier: Apache-2.0
// Attention of the blocks of a batch, forward: softmax in one pass over the keys.

#include "block_attention.cuh"
#include "device/cuda/once_per_device.h"
#include "tile_attention.cuh"

namespace ashlar::cuda {
namespace block_attention {
namespace {

template <int kPieces>
__global__ void __launch_bounds__(kThreads) forward_kernel(TrainAttention call, float scale) {
  constexpr int kColumns = 32 * kPieces;
  extern __shared__ __align__(16) float shared[];
  float* const q = shared;
  float* const k = q + kRows * kColumns;
  float* const v = k + kKeys * (kColumns + kPad);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const auto b = static_cast<int32_t>(blockIdx.x), h = static_cast<int32_t>(blockIdx.y);
  const auto first = static_cast<int32_t>(blockIdx.z) * kRows;
  const int32_t kv_column = h / (call.heads / call.kv_heads) * call.head_dim;
  const TrainBlock block = call.blocks[b];
  load_rows<kRows, kColumns, 0>(call.q, int64_t{b} * call.block + first, call.block - first, h * call.head_dim,
                                call.head_dim, scale, q);
  float sums[kRowsOfWarp] = {}, highest[kRowsOfWarp], out[kRowsOfWarp][kPieces] = {};
#pragma unroll
  for (int r = 0; r < kRowsOfWarp; ++r) highest[r] = -INFINITY;

  for_keys(call, b, first, [&](int64_t key, int32_t n, int32_t t) {
    __syncthreads();
    load_rows<kKeys, kColumns, kPad>(call.k, key, n, kv_column, call.head_dim, 1, k);
    load_rows<kKeys, kColumns, 0>(call.v, key, n, kv_column, call.head_dim, 1, v);
    __syncthreads();
    float p[kRowsOfWarp];
    products<kColumns>(q, k, call.head_dim, p);
#pragma unroll
    for (int r = 0; r < kRowsOfWarp; ++r) {
      const int32_t row = first + warp * kRowsOfWarp + r;
      const bool visible = lane < n && sees_key(call, block, row, t, lane);
      const float score = visible ? p[r] : -INFINITY;
      const float now = fmaxf(highest[r], warp_max(score));
      const float shrink = highest[r] == -INFINITY ? 0.0F : expf(highest[r] - now);
      p[r] = visible ? expf(score - now) : 0.0F;
      sums[r] = fmaf(sums[r], shrink, p[r]);
      highest[r] = now;
#pragma unroll
      for (int i = 0; i < kPieces; ++i) out[r][i] *= shrink;
    }
#pragma unroll 8
    for (int j = 0; j < kKeys; ++j) {
#pragma unroll
      for (int r = 0; r < kRowsOfWarp; ++r) {
        const float weight = __shfl_sync(~0u, p[r], j);
#pragma unroll
        for (int i = 0; i < kPieces; ++i) out[r][i] = fmaf(weight, v[j * kColumns + lane + 32 * i], out[r][i]);
      }
    }
  });

#pragma unroll
  for (int r = 0; r < kRowsOfWarp; ++r) {
    const float sum = warp_sum(sums[r]);
    const int32_t row = first + warp * kRowsOfWarp + r;
    if (row >= call.block) continue;
    const int64_t at = int64_t{b} * call.block + row;
    if (lane == 0) static_cast<float*>(call.log_sums.data)[at * call.log_sums.stride + h] = highest[r] + logf(sum);
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      const int c = lane + 32 * i;
      if (c >= call.head_dim) continue;
      store(call.out.data, at * call.out.stride + h * call.head_dim + c, call.out.is_f32, out[r][i] / sum);
    }
  }
}

template <int kPieces>
void forward(cudaStream_t stream, const TrainAttention& call) {
  constexpr int kColumns = 32 * kPieces;
  constexpr int kBytes = 4 * (kRows * kColumns + kKeys * (2 * kColumns + kPad));
  static OncePerDevice forward_kernel_allowed;
  allow_shared_bytes(forward_kernel_allowed, forward_kernel<kPieces>, kBytes);
  const dim3 grid(static_cast<unsigned>(call.n_blocks), static_cast<unsigned>(call.heads),
                  static_cast<unsigned>((call.block + kRows - 1) / kRows));
  forward_kernel<kPieces><<<grid, kThreads, kBytes, stream>>>(call, 1 / sqrtf(static_cast<float>(call.head_dim)));
}

}  // namespace
}  // namespace block_attention

void train_attention(cudaStream_t stream, const TrainAttention& call) {
  using namespace block_attention;
  if (tile_attention::takes(call)) return tile_attention::forward(stream, call);
  if (call.head_dim <= 32) return forward<1>(stream, call);
  if (call.head_dim <= 64) return forward<2>(stream, call);
  if (call.head_dim <= 128) return forward<4>(stream, call);
  forward<8>(stream, call);
}

}  // namespace ashlar::cuda
