// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where the sums of a warpgroup go.

#include "../kernels/device_math.cuh"
#include "hopper.cuh"

namespace ashlar::cuda {

/// From this number of rows on sums may pass through shared memory, so that 16 bytes at a time reach their place.
inline constexpr int kSquareTokens = 64;
/// Shared memory of a warp for finish_square().
inline constexpr int kSquareBytesOfWarp = 32 * 48;

/// Stores the sums of 64 outputs x kTokens rows, of which this warp has 16 outputs from `features` on, as wgmma leaves
/// them.
template <int kTokens>
__device__ __forceinline__ void finish_quads(const ProductCall& call, int32_t token, int32_t features,
                                             const float (&sum)[kTokens / 2]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int32_t output = features + lane / 4;
#pragma unroll
  for (int j = 0; j < kTokens / 8; ++j) {
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      int32_t row = token + 8 * j + 2 * (lane % 4) + c;
      if (row >= call.rows) continue;
      if (call.group.to != nullptr) row = call.group.to[row];
      if (row < 0) continue;
      const float low = sum[4 * j + c], high = sum[4 * j + 2 + c];
      if (call.finish == Finish::kGated) {
        const int32_t column = output / 16 * 8 + output % 8;
        if (column < call.width) cuda::finish(call, row, column, low, high);
      } else {
        if (output < call.width) cuda::finish(call, row, output, low, 0);
        if (output + 8 < call.width) cuda::finish(call, row, output + 8, high, 0);
      }
    }
  }
}

__device__ __forceinline__ uint32_t add_pairs(uint32_t a, uint32_t b) {
  const float2 x = __bfloat1622float2(reinterpret_cast<const __nv_bfloat162&>(a));
  const float2 y = __bfloat1622float2(reinterpret_cast<const __nv_bfloat162&>(b));
  return pack_bf16(x.x + y.x, x.y + y.y);
}

/// The same for a warp's 16 outputs x 32 rows. `stage` has 32 rows of 48 bytes, a pitch that keeps the stores apart
/// in banks.
__device__ __forceinline__ void finish_square(const ProductCall& call, const float* d, int32_t first_feature,
                                              int32_t first_token, char* stage) {
  const int lane = static_cast<int>(threadIdx.x) % 32, matrix = lane / 8, line = lane % 8;
  const auto place = [&](int32_t token, int32_t feature) {
    return reinterpret_cast<uint4*>(static_cast<__nv_bfloat16*>(call.out) + token * call.out_stride + feature);
  };
  __syncwarp();
  if (call.finish == Finish::kGated) {
    char* const row = stage + lane * 48;
    uint32_t pairs[4];  // of 8 outputs x 8 rows each
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      pairs[j] = pack_bf16(gated(d[4 * j], d[4 * j + 2]), gated(d[4 * j + 1], d[4 * j + 3]));
    }
    store_transposed(row, pairs[0], pairs[1], pairs[2], pairs[3]);
    __syncwarp();
    if (first_token + lane < call.rows && first_feature / 2 < call.width) {
      *place(first_token + lane, first_feature / 2) = *reinterpret_cast<const uint4*>(row);
    }
    return;
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {  // of the rows
    const float* const e = d + 8 * half;
    store_transposed(stage + (16 * half + line + 8 * (matrix / 2)) * 48 + matrix % 2 * 16, pack_bf16(e[0], e[1]),
                     pack_bf16(e[2], e[3]), pack_bf16(e[4], e[5]), pack_bf16(e[6], e[7]));
  }
  __syncwarp();
#pragma unroll
  for (int half = 0; half < 2; ++half) {  // two lanes have the 32 bytes of a row, whole sectors
    const int32_t line_of_lane = 16 * half + lane / 2, at = first_feature + lane % 2 * 8;
    if (first_token + line_of_lane >= call.rows || at >= call.width) continue;
    uint4 values = *reinterpret_cast<const uint4*>(stage + line_of_lane * 48 + lane % 2 * 16);
    uint4* const to = place(first_token + line_of_lane, at);
    if (call.finish == Finish::kAdd) {
      const uint4 old = *to;
      values = {add_pairs(old.x, values.x), add_pairs(old.y, values.y), add_pairs(old.z, values.z),
                add_pairs(old.w, values.w)};
    }
    *to = values;
  }
}

/// Stores the sums of 64 outputs x kTokens rows of a warpgroup by squares, or else by quads. `squares`: shared memory
/// of the warps, kSquareBytesOfWarp each.
template <int kTokens>
__device__ __forceinline__ void finish_tile(const ProductCall& call, bool by_squares, int32_t token, int32_t features,
                                            const float (&sum)[kTokens / 2], char* squares) {
  if (kTokens < kSquareTokens || !by_squares) {
    finish_quads<kTokens>(call, token, features, sum);
  } else {
    const int32_t warp = static_cast<int32_t>(threadIdx.x) / 32;
#pragma unroll
    for (int j = 0; j < kTokens / 32; ++j) {
      finish_square(call, &sum[16 * j], features, token + 32 * j, squares + warp * kSquareBytesOfWarp);
    }
  }
}

}  // namespace ashlar::cuda
