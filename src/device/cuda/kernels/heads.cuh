// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where keys and values of a layer lie.

#include "device_math.cuh"

namespace ashlar::cuda {

inline constexpr int32_t kPageTokens = 16;
inline constexpr int32_t kScratchSlotsPerPage = 8;

/// K or V of one head at a position of the pages, [head_dim].
__device__ __forceinline__ __nv_bfloat16* in_pages(const HeadsCall& call, const int32_t* page_table, int32_t position,
                                                   int32_t kv_head, bool value) {
  auto* const page =
      reinterpret_cast<__nv_bfloat16*>(call.kv + page_table[position / kPageTokens] * call.page_stride);
  const int64_t token = (int64_t{value} * call.n_kv_heads + kv_head) * kPageTokens + position % kPageTokens;
  return page + token * call.head_dim;
}

/// The same in a scratch slot.
__device__ __forceinline__ __nv_bfloat16* in_scratch(const HeadsCall& call, int32_t slot, int32_t kv_head, bool value) {
  auto* const page =
      reinterpret_cast<__nv_bfloat16*>(call.kv + slot / kScratchSlotsPerPage * call.page_stride);
  const int64_t first = int64_t{slot % kScratchSlotsPerPage} * (kPageTokens / kScratchSlotsPerPage) * 2;
  return page + ((first + int64_t{value}) * call.n_kv_heads + kv_head) * call.head_dim;
}

}  // namespace ashlar::cuda
