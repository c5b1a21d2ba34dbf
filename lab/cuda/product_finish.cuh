// SPDX-License-Identifier: Apache-2.0
#pragma once
// A call of the product, and where its sums go. All ways of writing a sum round alike, so tiles may differ in them.

#include "hopper.cuh"

namespace ashlar::cuda {

inline constexpr int kTileBytes = 64 * 128;  ///< a packed tile

struct ProductCall {
  const __nv_bfloat16* weight;  ///< packed
  void* out;                    ///< [rows, out_stride]
  int64_t out_stride;
  int32_t rows;
  int32_t n;  ///< outputs, those of the padding excluded
  int32_t k;  ///< padded
  int32_t splits;
};

enum class Finish {
  kBf16,      ///< out[r][i] = y
  kFloat,     ///< the same in fp32
  kAddBf16,   ///< out[r][i] += y, rounded once
  kGatedBf16  ///< out[r][i / 2] = silu(gate) * up; in the weight, 8 outputs of the gate are followed by 8 of up
};

__device__ __forceinline__ float gated(float gate, float up) { return gate / (1.0F + __expf(-gate)) * up; }

/// Where the sums of a thread go: d holds outputs (feature, feature + 8) of rows (token, token + 1), see wgmma.cuh.
template <Finish kFinish>
__device__ __forceinline__ void finish_quad(const ProductCall& call, const float* d, int32_t feature, int32_t token) {
#pragma unroll
  for (int c = 0; c < 2; ++c) {
    if (token + c >= call.rows) continue;
    const int64_t row = (token + c) * call.out_stride;
    if constexpr (kFinish == Finish::kGatedBf16) {
      auto* to = static_cast<__nv_bfloat16*>(call.out) + row + feature / 16 * 8 + feature % 8;
      if (feature < call.n) *to = __float2bfloat16_rn(gated(d[c], d[2 + c]));
    } else {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int32_t at = feature + 8 * h;
        const float y = d[2 * h + c];
        if (at >= call.n) continue;
        if constexpr (kFinish == Finish::kFloat) {
          static_cast<float*>(call.out)[row + at] = y;
        } else {
          auto* to = static_cast<__nv_bfloat16*>(call.out) + row + at;
          const __nv_bfloat16 rounded = __float2bfloat16_rn(y);
          *to = kFinish == Finish::kAddBf16 ? __float2bfloat16_rn(__bfloat162float(*to) + __bfloat162float(rounded)) : rounded;
        }
      }
    }
  }
}

/// A place for 8 outputs of a row: 16 bytes.
__device__ __forceinline__ uint4* place_of(const ProductCall& call, int32_t token, int32_t feature) {
  return reinterpret_cast<uint4*>(static_cast<__nv_bfloat16*>(call.out) + token * call.out_stride + feature);
}

__device__ __forceinline__ uint32_t add_pairs(uint32_t a, uint32_t b) {
  const float2 x = __bfloat1622float2(reinterpret_cast<const __nv_bfloat162&>(a));
  const float2 y = __bfloat1622float2(reinterpret_cast<const __nv_bfloat162&>(b));
  return pack_bf16(x.x + y.x, x.y + y.y);
}

/// The same as four quads for a warp's 16 outputs x 32 rows, through shared memory, so that global memory sees 16 bytes at
/// a time. `stage` has 32 rows of 48 bytes, a pitch that keeps the stores apart in banks.
template <Finish kFinish>
__device__ __forceinline__ void finish_square(const ProductCall& call, const float* d, int32_t first_feature,
                                              int32_t first_token, char* stage) {
  const int lane = threadIdx.x % 32, matrix = lane / 8, line = lane % 8;
  const int32_t token = first_token + lane;
  char* const row = stage + lane * 48;
  __syncwarp();
  if constexpr (kFinish == Finish::kGatedBf16) {
    uint32_t pairs[4];  // of 8 outputs x 8 rows each
#pragma unroll
    for (int j = 0; j < 4; ++j) pairs[j] = pack_bf16(gated(d[4 * j], d[4 * j + 2]), gated(d[4 * j + 1], d[4 * j + 3]));
    store_transposed(row, pairs[0], pairs[1], pairs[2], pairs[3]);
    __syncwarp();
    if (token < call.rows && first_feature < call.n) {
      *place_of(call, token, first_feature / 2) = *reinterpret_cast<const uint4*>(row);
    }
  } else {
#pragma unroll
    for (int half = 0; half < 2; ++half) {  // of the rows
      const float* e = d + 8 * half;
      store_transposed(stage + (16 * half + line + 8 * (matrix / 2)) * 48 + matrix % 2 * 16, pack_bf16(e[0], e[1]),
                       pack_bf16(e[2], e[3]), pack_bf16(e[4], e[5]), pack_bf16(e[6], e[7]));
    }
    __syncwarp();
#pragma unroll
    for (int half = 0; half < 2; ++half) {  // two lanes have the 32 bytes of a row, whole sectors
      const int32_t line_of_lane = 16 * half + lane / 2, at = first_feature + lane % 2 * 8;
      if (first_token + line_of_lane >= call.rows || at >= call.n) continue;
      uint4 values = *reinterpret_cast<const uint4*>(stage + line_of_lane * 48 + lane % 2 * 16);
      uint4* to = place_of(call, first_token + line_of_lane, at);
      if constexpr (kFinish == Finish::kAddBf16) {
        const uint4 old = *to;
        values = {add_pairs(old.x, values.x), add_pairs(old.y, values.y), add_pairs(old.z, values.z), add_pairs(old.w, values.w)};
      }
      *to = values;
    }
  }
}

}  // namespace ashlar::cuda
