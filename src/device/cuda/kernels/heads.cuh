// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where keys and values of a layer lie.

#include "device_math.cuh"

namespace ashlar::cuda {

inline constexpr int32_t kPageTokens = 16;
inline constexpr int32_t kScratchSlotsPerPage = 8;

/// A token's place in the cache: kv_numbers.cuh has what lies there.
struct KvPlace {
  char* page;
  int32_t token;
};

/// That of a position of the pages.
__device__ __forceinline__ KvPlace in_pages(const HeadsCall& call, const int32_t* page_table, int32_t position) {
  return {call.kv + page_table[position / kPageTokens] * call.page_stride, position % kPageTokens};
}

/// That of a scratch slot.
__device__ __forceinline__ KvPlace in_scratch(const HeadsCall& call, int32_t slot) {
  return {call.kv + slot / kScratchSlotsPerPage * call.page_stride, slot % kScratchSlotsPerPage};
}

/// That of a position which a branch may have.
__device__ __forceinline__ KvPlace place_of(const HeadsCall& call, const int32_t* page_table, const Branch& branch,
                                            int32_t position) {
  if (position >= branch.first && position < branch.first + branch.n) {
    return in_scratch(call, branch.slots[position - branch.first]);
  }
  return in_pages(call, page_table, position);
}

}  // namespace ashlar::cuda
