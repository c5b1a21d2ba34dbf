// SPDX-License-Identifier: Apache-2.0
#pragma once
// The highest logits of a row, found while its block of threads reads it for the gradient. The nth highest of the warps'
// highest is a bound that at least n logits reach, and few more do, as a rule. Those that reach it are listed; where the
// list grows long, it is cut to its n highest, of which the last is a higher bound.

#include "../kernels/keys.cuh"
#include "logit_rows.cuh"
#include "train_kernels.h"

namespace ashlar::cuda::train {

inline constexpr int kCutAbove = 256;  ///< keys of a list, before a reading of the next columns

/// None is listed.
template <bool kLists>
struct RowList {};
template <>
struct RowList<true> {
  uint64_t keys[kCutAbove + kStride];
  int32_t n;    ///< keys that are listed
  float reach;  ///< what a logit must not be below
  float of_warps[kRowWarps];
};

/// `own`: the highest logit that this thread has seen in the row. n: at most 32, as there are warps.
__device__ __forceinline__ void begin(RowList<true>& list, float own, int32_t n) {
  static_assert(kRowWarps == 32);
  const float of_warp = warp_max(own);
  if (threadIdx.x == 0) list.n = 0, list.reach = -INFINITY;
  if (threadIdx.x % 32 == 0) list.of_warps[threadIdx.x / 32] = of_warp;
  __syncthreads();
  if (threadIdx.x < 32) {
    const auto lane = static_cast<int32_t>(threadIdx.x);
    const float mine = list.of_warps[lane];
    int32_t before = 0;  // that are higher, or equal and of an earlier warp
    for (int32_t w = 0; w < kRowWarps; ++w) {
      const float other = list.of_warps[w];
      before += other > mine || (other == mine && w < lane) ? 1 : 0;
    }
    if (before == n - 1) list.reach = mine;
  }
  __syncthreads();
}

/// By the first warp: the key of rank `lane` among those listed, 0 where there are fewer.
__device__ __forceinline__ uint64_t key_of_lane(const RowList<true>& list, int32_t n) {
  const auto lane = static_cast<int32_t>(threadIdx.x);
  const auto highest_below = [&](uint64_t limit) {
    uint64_t best = 0;
    for (int32_t i = lane; i < list.n; i += 32) {
      if (list.keys[i] < limit) best = max_of(best, list.keys[i]);
    }
    return best;
  };
  uint64_t best = highest_below(~uint64_t{0}), mine = 0;
  for (int32_t rank = 0; rank < n; ++rank) {
    const uint64_t key = warp_highest(best);
    if (lane == rank) mine = key;
    if (key != 0 && key == best) best = highest_below(key);
  }
  return mine;
}

/// By all threads, each with columns [c, c + 4) of the next kStride ones; a barrier, which x was read before.
__device__ __forceinline__ void offer_four(RowList<true>& list, const float4& x, int32_t c, int32_t cols, int32_t n) {
  bool is_long = false;
  const auto offer = [&](float logit, int32_t column) {
    if (column >= cols || !(logit >= list.reach) || !(logit > -INFINITY)) return;
    const int32_t at = atomicAdd(&list.n, 1);
    list.keys[at] = key_of(logit, column);
    is_long = is_long || at >= kCutAbove;
  };
  offer(x.x, c), offer(x.y, c + 1), offer(x.z, c + 2), offer(x.w, c + 3);
  if (!__syncthreads_or(is_long)) return;
  if (threadIdx.x < 32) {
    const uint64_t key = key_of_lane(list, n);
    const uint64_t last = __shfl_sync(~0u, static_cast<unsigned long long>(key), n - 1);
    const auto lane = static_cast<int32_t>(threadIdx.x);
    if (lane < n) list.keys[lane] = key;
    if (lane == 0) list.n = n, list.reach = value_of(last);
  }
  __syncthreads();
}

/// After the last offer: row r of `out`, highest first; column 0 at minus infinity fills up.
__device__ __forceinline__ void write(const RowList<true>& list, int64_t r, const RowCandidates& out) {
  if (threadIdx.x >= 32) return;
  const uint64_t key = key_of_lane(list, out.n);
  if (static_cast<int32_t>(threadIdx.x) >= out.n) return;
  const int64_t at = r * out.n + threadIdx.x;
  out.ids[at] = key != 0 ? column_of(key) : 0;
  out.logits[at] = key != 0 ? value_of(key) : -INFINITY;
}

__device__ __forceinline__ void begin(RowList<false>& /*list*/, float /*own*/, int32_t /*n*/) {}
__device__ __forceinline__ void offer_four(RowList<false>& /*list*/, const float4& /*x*/, int32_t /*c*/,
                                           int32_t /*cols*/, int32_t /*n*/) {
  __syncthreads();
}
__device__ __forceinline__ void write(const RowList<false>& /*list*/, int64_t /*r*/, const RowCandidates& /*out*/) {}

}  // namespace ashlar::cuda::train
