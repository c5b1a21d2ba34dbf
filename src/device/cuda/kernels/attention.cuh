// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the kernels of attention share: how parts of a softmax meet, and who has which rows.

#include <math_constants.h>

#include "kv_numbers.cuh"

namespace ashlar::cuda {

/// Of some keys: the highest score, and the sum of weights relative to it.
struct Extent {
  float maximum;
  float sum;
};

/// Takes in the keys of `next`. Returns what values so far and those of `next` are multiplied by.
__device__ __forceinline__ float2 merge(Extent& extent, const Extent& next) {
  if (next.maximum == -CUDART_INF_F) return make_float2(1, 0);
  const float highest = fmaxf(extent.maximum, next.maximum);
  const float2 scales = make_float2(expf(extent.maximum - highest), expf(next.maximum - highest));
  extent.sum = extent.sum * scales.x + next.sum * scales.y;
  extent.maximum = highest;
  return scales;
}

/// What the values of all keys are divided by: the sum of their weights, with that of the head's sink if it has one; 0
/// where there is no key.
__device__ __forceinline__ float divisor_of(const AttentionCall& call, int32_t head, const Extent& total) {
  if (call.sinks == nullptr || !(total.sum > 0)) return total.sum;
  return total.sum + expf(call.sinks[head] - total.maximum);
}

/// 2^x, to two units in the last place.
__device__ __forceinline__ float power_of_two(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// Positions [begin, end).
struct KeyRange {
  int32_t begin;
  int32_t end;
};

/// Keys that a row sees, which a row without KV is one of.
__device__ __forceinline__ bool sees_itself(const HeadsCall& heads, int32_t row) {
  return heads.without_kv != nullptr && heads.without_kv[row] != 0;
}

/// Whether attention_hopper() has the rows [first, last) of a window of `window_rows`: half of one or more, of one
/// sequence, whose keys follow each other, none of which sees itself. keys: what any of them sees. Asked by whole
/// warps.
__device__ __forceinline__ bool is_wide(const AttentionCall& call, int32_t first, int32_t last, int32_t window_rows,
                                        KeyRange& keys) {
  const HeadsCall& heads = call.heads;
  if (2 * (last - first) < window_rows) return false;
  bool one = true;
  int32_t begin = INT32_MAX, end = 0;
  for (int32_t r = first + static_cast<int32_t>(threadIdx.x) % 32; r < last; r += 32) {
    one = one && heads.tables[r] == heads.tables[first] && !sees_itself(heads, r);
    if (r > first) one = one && call.begin[r] <= call.end[r - 1] && call.end[r] >= call.begin[r - 1];
    begin = min(begin, call.begin[r]), end = max(end, call.end[r]);
  }
  keys = {__reduce_min_sync(~0u, begin), __reduce_max_sync(~0u, end)};
  return __all_sync(~0u, one);
}

/// Blocks that are enough for a large GPU: two for each multiprocessor.
inline constexpr int kEnoughBlocks = 264;

/// Attention on the tensor cores (attention_tiles.cu), of heads that has_tiles() names.
void attention_tiles(cudaStream_t stream, const AttentionCall& call);
inline bool has_tiles(const HeadsCall& heads) {
  return heads.head_dim == 64 || heads.head_dim == 128 || heads.head_dim == 256;
}

/// Queries of a tile there.
inline constexpr int kTileQueries = 16;

}  // namespace ashlar::cuda
