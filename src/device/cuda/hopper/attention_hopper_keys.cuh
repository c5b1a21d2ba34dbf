// SPDX-License-Identifier: Apache-2.0
#pragma once
// How keys and values of a window of attention_hopper.cuh come to shared memory: four warps, eight where they are
// codes, keep a ring of stages full, a stage being the keys or the values of half a segment, or of a quarter where
// heads are of 256.

#include <type_traits>

#include "../kernels/attention.cuh"
#include "hopper.cuh"

namespace ashlar::cuda {

__device__ __forceinline__ void store_shared(uint32_t to, uint2 eight_bytes) {
  asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(to), "r"(eight_bytes.x), "r"(eight_bytes.y) : "memory");
}
__device__ __forceinline__ void store_shared(uint32_t to, uint4 bytes) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(bytes.x), "r"(bytes.y), "r"(bytes.z),
               "r"(bytes.w)
               : "memory");
}

/// Copies 8 or 16 bytes; zeros if `there` is false.
template <int kBytes>
__device__ __forceinline__ void copy_async(uint32_t to, const void* from, bool there) {
  static_assert(kBytes == 8 || kBytes == 16);
  const int bytes = there ? kBytes : 0;
  if constexpr (kBytes == 8) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
  } else {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
  }
}

/// Where keys of a window lie.
struct KeySource {
  const int32_t* page_table;
  Branch branch;
  int32_t kv_head;
};

/// Whether keys [first, first + n) have one of `keys`.
__device__ __forceinline__ bool meets(const KeyRange& keys, int32_t first, int32_t n) {
  return first < keys.end && first + n > keys.begin;
}

template <int kDim, class Format>
struct HopperKeys {
  static constexpr int kKeys = kSegment / (kDim > 128 ? 4 : 2);  // of a stage
  static constexpr int kParts = kSegment / kKeys;                // stages of keys of a segment
  static constexpr int kColumns = kDim / 64;                     // of 128 bytes
  static constexpr int kEightKeys = kColumns * 1024;             // bytes
  static constexpr int kTileBytes = kKeys * kDim * 2;
  /// Of codes, a stage of keys has two floats a key after its tile: what scores are multiplied by, and weights.
  static constexpr int kStageBytes = kTileBytes + (Format::kScaled ? 1024 : 0);
  static constexpr int kStages = kDim > 128 ? 5 : kDim == 128 ? (Format::kScaled ? 5 : 6) : 8;
  static_assert(kStages >= 4);  // keys of a segment stay until its weights are there

  /// Codes go through registers, so that more warps wait for them.
  static constexpr int kProducerWarps = Format::kScaled ? 8 : 4;
  static_assert(!Format::kScaled || kProducerWarps * kPageTokens == kKeys);

  struct Ring {
    char* stages;
    uint64_t* full;   ///< every producing thread has seen its copies arrive
    uint64_t* empty;  ///< every consuming warp is done with the stage
    int slot = 0, parity = 0;
    __device__ __forceinline__ void advance() {
      if (++slot == kStages) slot = 0, parity ^= 1;
    }
    __device__ __forceinline__ char* stage() const { return stages + slot * kStageBytes; }
    __device__ __forceinline__ float2* scales() const { return reinterpret_cast<float2*>(stage() + kTileBytes); }
  };

  /// Where the 8 bytes of dimensions 4 `piece` .. 4 `piece` + 3 begin, of the row of a tile whose columns are
  /// `column_bytes` apart: dimensions 4 h .. 4 h + 3 of each eight of 32 follow one another.
  static __device__ __forceinline__ int place_of(int piece, int row, int column_bytes) {
    const int at = piece / 8 * 8 + piece % 2 * 4 + piece % 8 / 2;
    return at / 16 * column_bytes + row % 8 * 128 + ((at % 16 / 2) ^ (row % 8)) * 16 + at % 2 * 8;
  }

  // --- Four producing warps, each with two pages of a stage, or one.

  /// Copies a page of keys or values to its place in a stage, `to`. A lane has 8 bytes of keys or 16 of values of every
  /// row, or of every second or fourth one; of long keys the same of each 128 dimensions.
  template <bool kValue>
  static __device__ __forceinline__ void copy_page(const char* page, uint32_t to) {
    constexpr int kBytes = kValue ? 16 : 8, kTimes = kValue || kDim <= 128 ? 1 : kDim / 128;
    constexpr int kPieces = kDim * 2 / kBytes / kTimes, kTogether = 32 / kPieces;
    const int lane = static_cast<int>(threadIdx.x) % 32, piece = lane % kPieces, line = lane / kPieces;
    const char* const from = page + line * kDim * 2 + piece * kBytes;
    const uint32_t at = to + (kValue ? piece / 8 * 1024 + piece % 8 * 16 : place_of(piece, 0, 1024)) + line * 128;
#pragma unroll
    for (int r = 0; r < kPageTokens; r += kTogether) {
      // Rows of a lane are 0 to kTogether - 1 further on than r, so that their bits do not meet.
      const uint32_t mixed = (at ^ ((r + line) % 8 * 16)) + r / 8 * kEightKeys + r % 8 * 128;
#pragma unroll
      for (int i = 0; i < kTimes; ++i) {
        copy_async<kBytes>(mixed + i * 2048, from + r * kDim * 2 + i * kPieces * kBytes, true);
      }
    }
  }

  /// The same where some of the page's keys are not seen or lie elsewhere.
  template <bool kValue>
  static __device__ __forceinline__ void copy_rows(const AttentionCall& call, const KeySource& source,
                                                   const KeyRange& keys, const char* page, int32_t first, uint32_t to) {
    constexpr int kBytes = kValue ? 16 : 8, kTimes = kValue || kDim <= 128 ? 1 : kDim / 128;
    constexpr int kPieces = kDim * 2 / kBytes / kTimes, kTogether = 32 / kPieces;
    const int lane = static_cast<int>(threadIdx.x) % 32, piece = lane % kPieces;
#pragma unroll 1
    for (int r = lane / kPieces; r < kPageTokens; r += kTogether) {
      const int32_t p = first + r;
      const bool there = p >= keys.begin && p < keys.end;
      const char* from = there ? page + r * kDim * 2 : call.heads.kv;
      if (there && p >= source.branch.first && p < source.branch.first + source.branch.n) {
        const int32_t slot = source.branch.slots[p - source.branch.first];
        from = Format::template vector<kValue>(call.heads, in_scratch(call.heads, slot), source.kv_head);
      }
      const int place = kValue ? piece / 8 * 1024 + r % 8 * 128 + (piece % 8 ^ r % 8) * 16 : place_of(piece, r, 1024);
#pragma unroll
      for (int i = 0; i < kTimes; ++i) {
        copy_async<kBytes>(to + r / 8 * kEightKeys + place + i * 2048, from + (i * kPieces + piece) * kBytes, there);
      }
    }
  }

  /// pages: those of the segment, a lane each.
  template <bool kValue>
  static __device__ __forceinline__ void copy_stage(const AttentionCall& call, const KeySource& source,
                                                    const KeyRange& keys, char* pages, int32_t segment, int half,
                                                    char* stage) {
    const int warp = static_cast<int>(threadIdx.x) / 32 % 4;
    constexpr int kPages = kKeys / kPageTokens, kMine = kPages / 4;
#pragma unroll
    for (int t = 0; t < kMine; ++t) {
      const int of_stage = kMine * warp + t, of_segment = kPages * half + of_stage;
      const int32_t first = segment + of_segment * kPageTokens, end = first + kPageTokens;
      const auto address = __shfl_sync(~0u, reinterpret_cast<unsigned long long>(pages), of_segment);
      const char* const page =
          Format::template vector<kValue>(call.heads, {reinterpret_cast<char*>(address), 0}, source.kv_head);
      const uint32_t to = shared_address(stage) + of_stage * 2 * kEightKeys;
      const bool whole = first >= keys.begin && end <= keys.end &&
                         (end <= source.branch.first || first >= source.branch.first + source.branch.n);
      if (whole) {
        copy_page<kValue>(page, to);
      } else {
        copy_rows<kValue>(call, source, keys, page, first, to);
      }
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  }

  // --- The same of codes, which become bf16 on their way, by eight warps, each with a page of a stage. A lane has
  // eight numbers of every second or fourth row. They have few registers.
  static constexpr int kEights = kDim / 8, kRowsAtOnce = 32 / kEights, kTurns = kPageTokens / kRowsAtOnce;
  template <bool kValue>
  using Numbers = std::conditional_t<kValue, typename Format::Values, typename Format::Keys>;

  template <bool kValue>
  struct Codes {
    typename Numbers<kValue>::Eight eights[kTurns];
    float2 scales;
  };

  /// Codes of the warp's page; with keys the scales, of a key a lane of the first 16.
  template <bool kValue>
  static __device__ __forceinline__ void load_codes(const AttentionCall& call, const KeySource& source,
                                                    const KeyRange& keys, char* pages, int32_t segment, int half,
                                                    Codes<kValue>& to) {
    const int warp = static_cast<int>(threadIdx.x) / 32 % kProducerWarps, lane = static_cast<int>(threadIdx.x) % 32;
    const int of_segment = 8 * half + warp;
    const int32_t first = segment + of_segment * kPageTokens, end = first + kPageTokens;
    char* const page =
        reinterpret_cast<char*>(__shfl_sync(~0u, reinterpret_cast<unsigned long long>(pages), of_segment));
    if (first >= keys.begin && end <= keys.end &&
        (end <= source.branch.first || first >= source.branch.first + source.branch.n)) {
      const char* const vector = Format::template vector<kValue>(call.heads, {page, lane / kEights}, source.kv_head);
#pragma unroll
      for (int r = 0; r < kTurns; ++r) {
        to.eights[r] = Numbers<kValue>::eight(
            vector + r * Format::template bytes_of<Numbers<kValue>>(kRowsAtOnce * kDim), kDim, lane % kEights);
      }
      if (!kValue) to.scales = Format::scales(call.heads, {page, lane % kPageTokens}, source.kv_head);
    } else {
      const auto place = [&](int32_t p) -> KvPlace {
        const bool branched = p >= source.branch.first && p < source.branch.first + source.branch.n;
        if (branched) return in_scratch(call.heads, source.branch.slots[p - source.branch.first]);
        return {page, p % kPageTokens};
      };
      const auto is_there = [&](int32_t p) { return p >= keys.begin && p < keys.end; };
#pragma unroll
      for (int r = 0; r < kTurns; ++r) {
        const int32_t p = first + r * kRowsAtOnce + lane / kEights;
        to.eights[r] = {};
        if (!is_there(p)) continue;
        to.eights[r] = Numbers<kValue>::eight(Format::template vector<kValue>(call.heads, place(p), source.kv_head),
                                              kDim, lane % kEights);
      }
      const int32_t p = first + lane % kPageTokens;
      to.scales = make_float2(0, 0);
      if (!kValue && is_there(p)) to.scales = Format::scales(call.heads, place(p), source.kv_head);
    }
    if (!kValue) to.scales.x = call.scale * to.scales.x;
  }

  template <bool kValue>
  static __device__ __forceinline__ void store_codes(const Codes<kValue>& from, const Ring& ring) {
    const int warp = static_cast<int>(threadIdx.x) / 32 % kProducerWarps, lane = static_cast<int>(threadIdx.x) % 32;
    const int eight = lane % kEights, line = lane / kEights;
    const uint32_t of_line = (kValue ? eight / 8 * 1024 + eight % 8 * 16 : place_of(2 * eight, 0, 1024)) + line * 128;
    const uint32_t to = shared_address(ring.stage()) + warp * 2 * kEightKeys + (of_line ^ line * 16);
#pragma unroll
    for (int r = 0; r < kTurns; ++r) {
      // Rows of a lane are 0 to kRowsAtOnce - 1 further on than this one, so that their bits do not meet.
      const int row = r * kRowsAtOnce;
      const uint32_t at = (to ^ (row % 8 * 16)) + row / 8 * kEightKeys + row % 8 * 128;
      const uint4 numbers = Numbers<kValue>::to_bf16(from.eights[r]);
      if (kValue) {
        store_shared(at, numbers);
      } else {  // the latter four are 32 bytes from the former ones, as place_of() has it
        store_shared(at, make_uint2(numbers.x, numbers.y));
        store_shared(at ^ 32, make_uint2(numbers.z, numbers.w));
      }
    }
    if (!kValue && lane < kPageTokens) ring.scales()[warp * kPageTokens + lane] = from.scales;
  }

  /// A stage's numbers are on their way while it is still in use.
  template <bool kValue>
  static __device__ __forceinline__ void produce_stage(const AttentionCall& call, const KeySource& source,
                                                       const KeyRange& keys, char* pages, int32_t segment, int half,
                                                       const Ring& ring) {
    Codes<kValue> codes;
    load_codes<kValue>(call, source, keys, pages, segment, half, codes);
    barrier_wait(&ring.empty[ring.slot], ring.parity);
    store_codes<kValue>(codes, ring);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    barrier_arrive(&ring.full[ring.slot]);
  }

  static __device__ void produce(const AttentionCall& call, const KeySource& source, const KeyRange& keys, Ring ring) {
    // A stage is announced when the copies of the one after it are in flight. wgmma reads by another proxy than these
    // copies write by.
    int announced = -1;
    const auto announce = [&] {
      if (announced < 0) return;
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
      barrier_arrive(&ring.full[announced]);
    };
    // Pages are looked up a segment ahead.
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const auto pages_of = [&](int32_t segment) -> char* {
      const int32_t p = segment + lane % 16 * kPageTokens;
      return meets(keys, p, kPageTokens) ? in_pages(call.heads, source.page_table, p).page : nullptr;
    };
    ring.parity = 1;
    int32_t segment = keys.begin / kSegment * kSegment;
    char* next = pages_of(segment);
    for (; segment < keys.end; segment += kSegment) {
      char* const pages = next;
      next = pages_of(segment + kSegment);
#pragma unroll
      for (int part = 0; part < 2 * kParts; ++part) {  // keys of both halves, or all quarters, then values
        const int half = part % kParts;
        if (!meets(keys, segment + half * kKeys, kKeys)) continue;
        if constexpr (Format::kScaled) {
          if (part < kParts) {
            produce_stage<false>(call, source, keys, pages, segment, half, ring);
          } else {
            produce_stage<true>(call, source, keys, pages, segment, half, ring);
          }
          ring.advance();
          continue;
        }
        barrier_wait(&ring.empty[ring.slot], ring.parity);
        if (part < kParts) {
          copy_stage<false>(call, source, keys, pages, segment, half, ring.stage());
        } else {
          copy_stage<true>(call, source, keys, pages, segment, half, ring.stage());
        }
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        announce();
        announced = ring.slot;
        ring.advance();
      }
    }
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    announce();
  }
};

}  // namespace ashlar::cuda
