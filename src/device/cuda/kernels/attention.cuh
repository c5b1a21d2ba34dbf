// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the kernels of attention share: how parts of a softmax meet.

#include <math_constants.h>

#include "heads.cuh"

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

/// Blocks that are enough for a large GPU: two for each multiprocessor.
inline constexpr int kEnoughBlocks = 264;

/// Merges the segments of a call that were computed side by side.
void combine_segments(cudaStream_t stream, const AttentionCall& call);

/// Attention on the tensor cores (attention_tiles.cu), of heads that has_tiles() names.
void attention_tiles(cudaStream_t stream, const AttentionCall& call);
inline bool has_tiles(const HeadsCall& heads) { return heads.head_dim == 64 || heads.head_dim == 128; }

}  // namespace ashlar::cuda
