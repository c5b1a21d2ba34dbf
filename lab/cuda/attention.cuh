// SPDX-License-Identifier: Apache-2.0
#pragma once
// Paged attention for rows of any kind: one token, a block to verify, a chunk of a prompt.
//
// The heads that share keys are packed: row m of a 64-row product is head m % group of token m / group, so that 16 tokens
// x 4 heads are one wgmma. The law of a row, whatever shares the call: its keys are cut at multiples of kSplit = 256
// positions from 0, and a split in two units of 128. Units follow one another with a running maximum, from nothing in
// every split; scores are one chain over head_dim, weights are rounded to bf16 and multiplied with the values in one chain
// over the positions of a split; weights are summed by groups of 32 keys, four sums a row (one for each pair of keys modulo
// 8), which meet at the end of a split. Splits are merged in ascending order by the online formula of merge(). A block of threads
// may take one split (few rows, long contexts; `combine_splits` then merges) or all of them in turn: the same operations
// in the same order. Masked keys weigh exactly zero, so company changes nothing.
//
// A page holds 16 tokens, for each key/value head K then V, each [16 / 8][head_dim / 64][8 tokens][64]: rows of 128 bytes
// whose 16-byte pieces are permuted by token % 8. Pages that follow one another in shared memory are then one operand of
// wgmma with a constant stride of 8 tokens, K-major for scores and N-major for values, and a page is one linear copy.

#include "hopper.cuh"

namespace ashlar::cuda {

inline constexpr int kPageTokens = 16;
inline constexpr int kSplit = 256;
inline constexpr int kUnit = 128;  ///< keys that are weighed at once; K or V of them is a stage of the pipeline
inline constexpr int kUnitPages = kUnit / kPageTokens;

/// Rows [first, first + count) of one sequence, which fill at most one tile of rows x heads. Made once a step.
struct RowBlock {
  int32_t first;
  int32_t count;
  int32_t table;    ///< their page table
  int32_t low;      ///< keys that any of them sees: [low, high); both 0 if none
  int32_t high;
  int32_t settled;  ///< keys before this position were written by earlier steps
};

struct AttentionCall {
  const char* kv;  ///< plane of this layer
  int64_t page_stride;
  const int32_t* page_tables;  ///< [tables, max_pages]
  int32_t max_pages;
  const int32_t* begin;   ///< [rows] keys a row sees: [begin, end)
  const int32_t* end;
  const RowBlock* blocks;
  int32_t n_blocks;
  int32_t n_kv_heads;
  int32_t group;     ///< query heads of a key/value head
  float scale;       ///< of scores, times log2(e)
  __nv_bfloat16* out;  ///< [rows, n_heads * head_dim]
  int64_t out_stride;
  float* partial;    ///< [rows, n_heads, max_splits, head_dim], unless a block of threads takes all splits
  float2* extent;    ///< [rows, n_heads, max_splits]: maximum and sum
  int32_t max_splits;
};

__device__ __forceinline__ float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// What a split adds to the splits before it: scales of the old and the new values. Starts from maximum -inf, sum 0.
__device__ __forceinline__ void merge(float& maximum, float& sum, float new_maximum, float new_sum, float& old_scale,
                                      float& new_scale) {
  const float highest = fmaxf(maximum, new_maximum);
  const float base = highest == -INFINITY ? 0.0F : highest;
  old_scale = exp2_fast(maximum - base);
  new_scale = exp2_fast(new_maximum - base);
  sum = __fmaf_rn(new_sum, new_scale, __fmul_rn(sum, old_scale));
  maximum = highest;
}

__device__ __forceinline__ float normalised(float value, float sum) {
  return sum > 0 ? __fmul_rn(value, __frcp_rn(sum)) + 0.0F : 0.0F;  // never minus zero
}

/// A thread's weights of 32 keys for row h of its two: w holds 4 quads [key pair][h][key].
__device__ __forceinline__ float group_sum(const float* w, int h) {
  const float even = ((w[2 * h] + w[4 + 2 * h]) + w[8 + 2 * h]) + w[12 + 2 * h];
  const float odd = ((w[2 * h + 1] + w[5 + 2 * h]) + w[9 + 2 * h]) + w[13 + 2 * h];
  return even + odd;
}

/// Merges the splits of a row and head; one warp each, in ascending order.
template <int kHeadDim>
__global__ void __launch_bounds__(128) combine_splits(const __grid_constant__ AttentionCall call, int32_t rows) {
  constexpr int kMine = kHeadDim / 32;
  let_successor_start();
  wait_for_predecessors();
  const int32_t heads = call.n_kv_heads * call.group;
  const int32_t index = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (index >= rows * heads) return;
  const int32_t row = index / heads, head = index % heads;
  const int32_t begin = call.begin[row], end = call.end[row];
  float total[kMine] = {}, maximum = -INFINITY, sum = 0;
  const int64_t first = int64_t{index} * call.max_splits;
  const int32_t split_end = begin < end ? (end + kSplit - 1) / kSplit : 0;
#pragma unroll 4
  for (int32_t split = begin / kSplit; split < split_end; ++split) {
    const float2 extent = __ldcg(call.extent + first + split);
    const float* from = call.partial + (first + split) * kHeadDim + lane * kMine;
    float values[kMine];
    if constexpr (kMine == 4) {
      const float4 four = __ldcg(reinterpret_cast<const float4*>(from));
      values[0] = four.x, values[1] = four.y, values[2] = four.z, values[3] = four.w;
    } else {
      const float2 two = __ldcg(reinterpret_cast<const float2*>(from));
      values[0] = two.x, values[1] = two.y;
    }
    float old_scale, new_scale;
    merge(maximum, sum, extent.x, extent.y, old_scale, new_scale);
#pragma unroll
    for (int i = 0; i < kMine; ++i) total[i] = __fmaf_rn(values[i], new_scale, __fmul_rn(total[i], old_scale));
  }
  uint32_t* to = reinterpret_cast<uint32_t*>(call.out + row * call.out_stride + head * kHeadDim + lane * kMine);
#pragma unroll
  for (int i = 0; i < kMine / 2; ++i) {
    to[i] = pack_bf16(normalised(total[2 * i], sum), normalised(total[2 * i + 1], sum));
  }
}

/// Byte of one element in a page: see attention.cuh.
__host__ __device__ inline int64_t page_place(int32_t head, bool value, int32_t token, int32_t dim, int32_t head_dim) {
  const int64_t plane = (int64_t{head} * 2 + value) * kPageTokens * head_dim * 2;
  return plane + (token / 8 * (head_dim / 64) + dim / 64) * 1024 + token % 8 * 128 + ((dim % 64 / 8) ^ (token % 8)) * 16 +
         dim % 8 * 2;
}

}  // namespace ashlar::cuda
