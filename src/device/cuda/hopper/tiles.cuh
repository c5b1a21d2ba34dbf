// SPDX-License-Identifier: Apache-2.0
#pragma once
// The tiles of an output that the blocks of a product take in turn.

#include <algorithm>

#include "../kernels.h"
#include "hopper.cuh"

namespace ashlar::cuda {

template <int kFeatures, int kTokens>
struct OutputTiles {
  struct Item {
    int32_t feature;
    int32_t token;
  };
  static __device__ int32_t of_features(const ProductCall& call) { return (call.n + kFeatures - 1) / kFeatures; }
  static __device__ int32_t of_tokens(const ProductCall& call) { return (call.rows + kTokens - 1) / kTokens; }
  static __device__ int32_t count(const ProductCall& call) { return of_features(call) * of_tokens(call); }
  /// Neighbours in time share rows of x or outputs of the weight, so that L2 serves them.
  static __device__ Item at(const ProductCall& call, int32_t index) {
    constexpr int32_t kBand = 16;  // feature tiles that are walked together
    const int32_t tokens = of_tokens(call);
    const int32_t band = index / (kBand * tokens);
    const int32_t width = min(kBand, of_features(call) - band * kBand);
    const int32_t rest = index - band * kBand * tokens;
    return {(band * kBand + rest % width) * kFeatures, rest / width * kTokens};
  }
};

/// A consuming warp is done with a stage.
__device__ __forceinline__ void release(uint64_t* empty) {
  if (threadIdx.x % 32 == 0) barrier_arrive(empty);
}

/// Most shared memory of a block.
inline constexpr int kMaxShared = 226 * 1024;

/// Shared memory of a block that needs `bytes`. Never two blocks on a multiprocessor, where those of a kernel that
/// starts early would share the first ones. Weights of a few megabytes are not about bandwidth and do better side by
/// side.
inline int shared_for(const ProductCall& call, int bytes) {
  constexpr int kHalf = 116 * 1024;
  return int64_t{call.n} * call.k >= int64_t{1} << 23 ? std::max(bytes, kHalf) : bytes;
}

}  // namespace ashlar::cuda
