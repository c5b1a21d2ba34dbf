// SPDX-License-Identifier: Apache-2.0
#pragma once
// Row-wise operations. Every one gives a row to a fixed number of threads that reduce in a fixed order, so rows are
// independent by construction.

#include "attention.cuh"
#include "pack.cuh"

namespace ashlar::cuda {

/// Sum over the warp, the same in every lane.
__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(~0u, value, distance);
  return value;
}

__device__ __forceinline__ void unpack(const uint4& packed, float (&to)[8]) {
  const auto* pairs = reinterpret_cast<const __nv_bfloat162*>(&packed);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 two = __bfloat1622float2(pairs[i]);
    to[2 * i] = two.x, to[2 * i + 1] = two.y;
  }
}

__device__ __forceinline__ uint4 pack(const float (&from)[8]) {
  return {pack_bf16(from[0], from[1]), pack_bf16(from[2], from[3]), pack_bf16(from[4], from[5]),
          pack_bf16(from[6], from[7])};
}

/// out[r] = x[r] / sqrt(mean(x[r]^2) + eps) * weight, for a block of kThreads threads a row. x, out: [rows, cols] bf16 with
/// strides in elements, cols a multiple of 8 and at most kThreads * 8 * kPieces; both follow from cols alone. With `add`,
/// x[r] first becomes x[r] + add[r], rounded to bf16 and kept.
template <int kThreads, int kPieces>
__global__ void __launch_bounds__(kThreads) rms_norm(__nv_bfloat16* x, int64_t x_stride, const __nv_bfloat16* add,
                                                     int64_t add_stride, const float* weight, float eps, int32_t cols,
                                                     __nv_bfloat16* out, int64_t out_stride) {
  __shared__ float sums[kThreads / 32];
  auto* row = reinterpret_cast<uint4*>(x + blockIdx.x * x_stride);
  const int32_t pieces = cols / 8;
  float values[kPieces][8], weights[kPieces][8];
#pragma unroll
  for (int p = 0; p < kPieces; ++p) {  // weights do not depend on the kernels before this one
    const int32_t piece = p * kThreads + static_cast<int32_t>(threadIdx.x);
    if (piece >= pieces) break;
    const auto* from = reinterpret_cast<const float4*>(weight + piece * 8);
    const float4 low = from[0], high = from[1];
    weights[p][0] = low.x, weights[p][1] = low.y, weights[p][2] = low.z, weights[p][3] = low.w;
    weights[p][4] = high.x, weights[p][5] = high.y, weights[p][6] = high.z, weights[p][7] = high.w;
  }
  let_successor_start();
  wait_for_predecessors();
  float sum = 0;
#pragma unroll
  for (int p = 0; p < kPieces; ++p) {
    const int32_t piece = p * kThreads + static_cast<int32_t>(threadIdx.x);
    if (piece >= pieces) break;
    unpack(row[piece], values[p]);
    if (add != nullptr) {
      float more[8];
      unpack(reinterpret_cast<const uint4*>(add + blockIdx.x * add_stride)[piece], more);
#pragma unroll
      for (int i = 0; i < 8; ++i) values[p][i] += more[i];
      row[piece] = pack(values[p]);
      unpack(row[piece], values[p]);
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) sum = __fmaf_rn(values[p][i], values[p][i], sum);
  }
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = sums[0];
#pragma unroll
  for (int w = 1; w < kThreads / 32; ++w) sum += sums[w];
  const float scale = rsqrtf(sum / static_cast<float>(cols) + eps);
#pragma unroll
  for (int p = 0; p < kPieces; ++p) {
    const int32_t piece = p * kThreads + static_cast<int32_t>(threadIdx.x);
    if (piece >= pieces) break;
    float normed[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) normed[i] = values[p][i] * scale * weights[p][i];
    reinterpret_cast<uint4*>(out + blockIdx.x * out_stride)[piece] = pack(normed);
  }
}

/// Byte of one element in a page: see attention.cuh.
__host__ __device__ inline int64_t page_place(int32_t head, bool value, int32_t token, int32_t dim, int32_t head_dim) {
  const int64_t plane = (int64_t{head} * 2 + value) * kPageTokens * head_dim * 2;
  return plane + (token / 8 * (head_dim / 64) + dim / 64) * 1024 + token % 8 * 128 + ((dim % 64 / 8) ^ (token % 8)) * 16 +
         dim % 8 * 2;
}

struct FinishCall {
  __nv_bfloat16* qkv;  ///< [rows, (q_heads + 2 n_kv_heads) * head_dim]
  int64_t stride;
  int32_t rows, q_heads, n_kv_heads;
  const float *q_norm, *k_norm;  ///< [head_dim], or null
  float eps;
  const float *cos, *sin;  ///< [positions, head_dim / 2]
  const int32_t* positions;
  const int32_t* tables;  ///< [rows]; -1: the row keeps no keys and values
  const int32_t* page_tables;
  int32_t max_pages;
  char* kv;
  int64_t page_stride;
};

/// Queries and keys are normed and rotated, queries and keys stay in qkv, keys and values go to their pages. A warp a
/// head; a lane has dimensions 2 l, 2 l + 1 (+ 64 a step) of both halves, so that a rotation stays within it. What the
/// host said of the rows was written by the first kernel of the step, long before.
template <int kHeadDim>
__global__ void __launch_bounds__(128) finish_qkv(const __grid_constant__ FinishCall call) {
  constexpr int kHalf = kHeadDim / 2;
  constexpr int kPairs = (kHalf + 63) / 64;
  const int32_t heads = call.q_heads + 2 * call.n_kv_heads;
  const int32_t index = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
  const bool there = index < call.rows * heads;
  const int32_t row = there ? index / heads : 0, head = there ? index % heads : 0;
  __nv_bfloat16* at = call.qkv + row * call.stride + head * kHeadDim;
  const bool is_value = head >= call.q_heads + call.n_kv_heads;
  const bool is_key = head >= call.q_heads && !is_value;
  const int32_t position = call.positions[row], table = call.tables[row];
  const float* norm = is_value ? nullptr : is_key ? call.k_norm : call.q_norm;
  char* page = nullptr;
  if ((is_key || is_value) && table >= 0) {
    page = call.kv + call.page_tables[int64_t{table} * call.max_pages + position / kPageTokens] * call.page_stride;
  }
  float low[kPairs][2] = {}, high[kPairs][2] = {};
  float2 cos[kPairs], sin[kPairs], low_weight[kPairs], high_weight[kPairs];
#pragma unroll
  for (int p = 0; p < kPairs; ++p) {
    const int32_t i = min(p * 64 + 2 * lane, kHalf - 2);
    cos[p] = *reinterpret_cast<const float2*>(call.cos + int64_t{position} * kHalf + i);
    sin[p] = *reinterpret_cast<const float2*>(call.sin + int64_t{position} * kHalf + i);
    low_weight[p] = high_weight[p] = make_float2(1, 1);
    if (norm == nullptr) continue;
    low_weight[p] = *reinterpret_cast<const float2*>(norm + i);
    high_weight[p] = *reinterpret_cast<const float2*>(norm + kHalf + i);
  }
  let_successor_start();
  wait_for_predecessors();
  if (!there) return;
#pragma unroll
  for (int p = 0; p < kPairs; ++p) {
    const int32_t i = p * 64 + 2 * lane;
    if (i >= kHalf) break;
    const float2 a = __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(at + i));
    const float2 b = __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(at + kHalf + i));
    low[p][0] = a.x, low[p][1] = a.y, high[p][0] = b.x, high[p][1] = b.y;
  }
  if (norm != nullptr) {
    float sum = 0;
#pragma unroll
    for (int p = 0; p < kPairs; ++p) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        sum = __fmaf_rn(low[p][c], low[p][c], sum);
        sum = __fmaf_rn(high[p][c], high[p][c], sum);
      }
    }
    const float scale = rsqrtf(warp_sum(sum) / kHeadDim + call.eps);
#pragma unroll
    for (int p = 0; p < kPairs; ++p) {
      low[p][0] *= scale * low_weight[p].x, low[p][1] *= scale * low_weight[p].y;
      high[p][0] *= scale * high_weight[p].x, high[p][1] *= scale * high_weight[p].y;
    }
  }
#pragma unroll
  for (int p = 0; p < kPairs; ++p) {
    const int32_t i = p * 64 + 2 * lane;
    if (i >= kHalf) break;
    uint32_t a, b;
    if (!is_value) {
      a = pack_bf16(low[p][0] * cos[p].x - high[p][0] * sin[p].x, low[p][1] * cos[p].y - high[p][1] * sin[p].y);
      b = pack_bf16(high[p][0] * cos[p].x + low[p][0] * sin[p].x, high[p][1] * cos[p].y + low[p][1] * sin[p].y);
      *reinterpret_cast<uint32_t*>(at + i) = a;
      *reinterpret_cast<uint32_t*>(at + kHalf + i) = b;
    } else {
      a = pack_bf16(low[p][0], low[p][1]), b = pack_bf16(high[p][0], high[p][1]);
    }
    if (page != nullptr) {
      const int32_t kv_head = (head - call.q_heads) % call.n_kv_heads;
      *reinterpret_cast<uint32_t*>(page + page_place(kv_head, is_value, position % kPageTokens, i, kHeadDim)) = a;
      *reinterpret_cast<uint32_t*>(page + page_place(kv_head, is_value, position % kPageTokens, kHalf + i, kHeadDim)) = b;
    }
  }
}

/// out[r][i] = silu(gate) * up of rows whose halves lie side by side: [rows, 2 width].
__global__ void silu_product(const __nv_bfloat16* x, int64_t stride, int32_t width, __nv_bfloat16* out, int64_t out_stride) {
  let_successor_start();
  wait_for_predecessors();
  const int32_t i = (blockIdx.x * blockDim.x + threadIdx.x) * 8;
  if (i >= width) return;
  float gate[8], up[8];
  unpack(*reinterpret_cast<const uint4*>(x + blockIdx.y * stride + i), gate);
  unpack(*reinterpret_cast<const uint4*>(x + blockIdx.y * stride + width + i), up);
#pragma unroll
  for (int c = 0; c < 8; ++c) gate[c] = gate[c] / (1.0F + __expf(-gate[c])) * up[c];
  *reinterpret_cast<uint4*>(out + blockIdx.y * out_stride + i) = pack(gate);
}

/// out[r] = scale * row ids[r] of a packed table of k padded inputs. cols: a multiple of 8.
__global__ void embed(const char* table, int32_t k, const int32_t* ids, float scale, int32_t cols, __nv_bfloat16* out,
                      int64_t out_stride) {
  let_successor_start();
  wait_for_predecessors();
  const int32_t id = ids[blockIdx.x];
  for (int32_t i = static_cast<int32_t>(threadIdx.x) * 8; i < cols; i += static_cast<int32_t>(blockDim.x) * 8) {
    uint4 values = *reinterpret_cast<const uint4*>(table + packed_place(id, i, k));
    if (scale != 1.0F) {
      float floats[8];
      unpack(values, floats);
#pragma unroll
      for (int c = 0; c < 8; ++c) floats[c] *= scale;
      values = pack(floats);
    }
    *reinterpret_cast<uint4*>(out + blockIdx.x * out_stride + i) = values;
  }
}

}  // namespace ashlar::cuda
