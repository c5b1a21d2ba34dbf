// SPDX-License-Identifier: Apache-2.0
// Attention of the blocks of a batch on the tensor cores, forward: softmax in one pass over the keys.

#include "device/cuda/once_per_device.h"
#include "tile_attention.cuh"

namespace ashlar::cuda::tile_attention {
namespace {

/// Keys whose scores a warp holds at once.
constexpr int kPart = 32;

template <int kDim>
__global__ void __launch_bounds__(32 * kWarps) forward_kernel(TrainAttention call, float scale) {
  extern __shared__ __align__(16) __nv_bfloat16 staged[];
  const auto b = static_cast<int32_t>(blockIdx.x), kv_head = static_cast<int32_t>(blockIdx.y);
  const int quad = threadIdx.x % 4;
  const TrainBlock block = call.blocks[b];
  const LaneRows rows = lane_rows(call, b, kv_head);
  uint32_t q[kDim / 16][4];
  load_left<kDim>(call.q, rows, q);
  float out[kDim / 8][4] = {}, highest[2] = {-INFINITY, -INFINITY}, sums[2] = {};

  for_keys<kDim>(call, b, kv_head, staged, [&](const KeyTile& at, auto whole, const auto* keys, const auto* values) {
    constexpr bool kWhole = decltype(whole)::value;
    const int32_t n = kWhole ? kKeys : at.n;
    for (int32_t part = 0; part < n; part += kPart) {
      float p[kPart / 8][4] = {};
      float now[2] = {highest[0], highest[1]};
#pragma unroll
      for (int tile = 0; tile < kPart / 8; ++tile) {
        if (kWhole || part + tile * 8 < (n + 15) / 16 * 16)
          multiply_rows<kDim>(p[tile], q, keys + (part + tile * 8) * (kDim + kPad));
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const bool counts = kWhole || visible(call, block, rows.r[i / 2], part + tile * 8 + 2 * quad + i % 2, at);
          p[tile][i] = counts ? p[tile][i] * scale : -INFINITY;
          now[i / 2] = fmaxf(now[i / 2], p[tile][i]);
        }
      }
      float shrink[2];
#pragma unroll
      for (int side = 0; side < 2; ++side) {
        now[side] = quad_max(now[side]);
        shrink[side] = highest[side] == -INFINITY ? 0.0F : __expf(highest[side] - now[side]);
        highest[side] = now[side];
        sums[side] *= shrink[side];
      }
#pragma unroll
      for (int tile = 0; tile < kPart / 8; ++tile) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          p[tile][i] = p[tile][i] == -INFINITY ? 0.0F : __expf(p[tile][i] - highest[i / 2]);
          sums[i / 2] += p[tile][i];
        }
      }
#pragma unroll
      for (int column = 0; column < kDim / 8; ++column) {
#pragma unroll
        for (int i = 0; i < 4; ++i) out[column][i] *= shrink[i / 2];
      }
#pragma unroll
      for (int tile = 0; tile < kPart / 8; tile += 2) {
        if (!kWhole && part + tile * 8 >= n) continue;
        const uint32_t left[4] = {pack_bf16(p[tile][0], p[tile][1]), pack_bf16(p[tile][2], p[tile][3]),
                                  pack_bf16(p[tile + 1][0], p[tile + 1][1]), pack_bf16(p[tile + 1][2], p[tile + 1][3])};
        add_weighted<kDim>(out, left, values + (part + tile * 8) * (kDim + kPad));
      }
    }
  });

#pragma unroll
  for (int side = 0; side < 2; ++side) {
    const float sum = quad_sum(sums[side]);
    if (rows.at[side] < 0) continue;
    if (quad == 0) {
      log_sum(call, rows.at[side], rows.head[side]) = highest[side] + logf(sum);
    }
#pragma unroll
    for (int column = 0; column < kDim / 8; ++column) {
      store_pair(call.out, rows.at[side], rows.head[side] * kDim + column * 8 + 2 * quad, out[column][2 * side] / sum,
                 out[column][2 * side + 1] / sum);
    }
  }
}

template <int kDim>
void launch(cudaStream_t stream, const TrainAttention& call) {
  static OncePerDevice allowed;
  allow_shared_bytes(allowed, forward_kernel<kDim>, kStagedBytes<kDim>);
  const Shape shape = shape_of(call);
  const float scale = 1 / sqrtf(static_cast<float>(kDim));
  forward_kernel<kDim><<<shape.grid, shape.threads, kStagedBytes<kDim>, stream>>>(call, scale);
}

}  // namespace

void forward(cudaStream_t stream, const TrainAttention& call) {
  with_head_dim(call, [&](auto head_dim) { launch<head_dim()>(stream, call); });
}

}  // namespace ashlar::cuda::tile_attention
