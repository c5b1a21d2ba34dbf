// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tiles of queries and cuts of keys; attention_tiles.cu has their law.

#include "attention.cuh"
#include "copies.cuh"
#include "pairs.cuh"

namespace ashlar::cuda {

inline constexpr int kTileWarps = 8;
inline constexpr int kCut = 32;
inline constexpr int kTileRows = kTileQueries;
static_assert(kSegment == kTileWarps * kCut);

/// Element `i` of eight in each of two vectors, as a pair.
__device__ __forceinline__ uint32_t pair_of(const uint4& low, const uint4& high, int i) {
  const auto* const a = reinterpret_cast<const uint32_t*>(&low);
  const auto* const b = reinterpret_cast<const uint32_t*>(&high);
  return __byte_perm(a[i / 2], b[i / 2], i % 2 == 0 ? 0x5410 : 0x7632);
}

/// Merges a segment, in ascending order, into those before it: its extent and its share of four dimensions.
__device__ __forceinline__ void add_segment(Extent& total, float4& answer, const Extent& extent, float4 value) {
  const float2 scales = merge(total, extent);
  answer = make_float4(answer.x * scales.x + value.x * scales.y, answer.y * scales.x + value.y * scales.y,
                       answer.z * scales.x + value.z * scales.y, answer.w * scales.x + value.w * scales.y);
}

/// What decides which rows of a window share a tile.
struct WindowRow {
  KeyRange keys;  ///< without the row's own
  int32_t table;
  bool alone;  ///< sees itself
};

template <int kDim>
struct Shared {
  static constexpr int kPart = kPartDim<kDim>;
  /// Queries lie 64 bytes further apart than they are long: two rows that are read together meet all banks.
  static constexpr int kPitch = kDim * 2 + 64;
  float sums[kTileWarps][kTileRows][kPart];  ///< of a cut each, a part after the other: more than other GPUs hold
  char queries[kTileRows * kPitch];
  __align__(16) __nv_bfloat16 own[2][kDim];  ///< key and value of a row that sees itself
  float own_scales[2];
  Extent extents[kTileWarps][kTileRows];
  float scales[kTileWarps][kTileRows];
  KeyRange ranges[kTileRows];  ///< keys that a query sees
  WindowRow window[kTileRows];
  bool is_last;  ///< of the blocks that share a tile's segments
};

/// The rows of a tile, and all keys that any of them sees.
struct Tile {
  int32_t first;
  int32_t end;
  KeyRange keys;
};

/// The tile that begins at `row`, of rows before `last`. rows: of the window from `row` on.
__device__ inline Tile tile_at(const WindowRow* rows, int32_t row, int32_t last) {
  const WindowRow& first = rows[0];
  Tile tile = {row, row + 1, first.keys};
  if (first.alone) {
    ++tile.keys.end;
    return tile;
  }
  for (; tile.end < last; ++tile.end) {
    const WindowRow& next = rows[tile.end - row];
    if (next.table != first.table || next.alone) break;
    // Keys between them may never have been written.
    if (next.keys.begin > tile.keys.end || next.keys.end < tile.keys.begin) break;
    tile.keys = {min(tile.keys.begin, next.keys.begin), max(tile.keys.end, next.keys.end)};
  }
  return tile;
}

/// What a warp has of its cut between the parts of the sums: the weights, and values on their way.
template <int kDim, class Format>
struct Weighed {
  bool has_own;  ///< the row's own key is one of the cut
  bool whole;    ///< all keys are seen and in their places of the two pages that the cut has
  uint32_t weights[kCut / 8][2];
  typename Format::Values::template Apart<kDim, 8> v[kDim / kPartDim<kDim>][kCut / 16][4];
};

/// Where a thread's part of the scores lies in a tile: queries lane / 4 and lane / 4 + 8, keys 2 (lane % 4) and the
/// next of each eight.
template <int kDim, int kResident, class Format>
struct Cut {
  static constexpr int kPart = kPartDim<kDim>, kParts = kDim / kPart;
  /// Whether values come with the keys. Codes of values, too, take no more registers than keys in bf16. Else a part's
  /// come when its keys were multiplied.
  static constexpr bool kTogether = kParts == 1 && (kResident == 1 || Format::kScaled);
  using Weights = Weighed<kDim, Format>;

  const AttentionCall& call;
  Shared<kDim>& shared;
  const int32_t* page_table;
  Branch branch;
  int32_t kv_head;
  int32_t own_at;  ///< position that stands for the row's own key, or -1

  /// The place of a position that is not the row's own.
  __device__ __forceinline__ KvPlace place(int32_t p) const { return place_of(call.heads, page_table, branch, p); }

  __device__ __forceinline__ bool is_there(const KeyRange& keys, int32_t p) const {
    return p >= keys.begin && p < keys.end && p != own_at;
  }
  using KeysOfLane = typename Format::Keys::template Apart<kDim, 4>[kCut / 8];
  __device__ __forceinline__ void load_keys(int32_t first, const KeyRange& keys, bool whole, int part,
                                            KeysOfLane& k) const {
    const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, c = lane % 4;
#pragma unroll
    for (int j = 0; j < kCut / 8 && whole; j += 2) {
      const KvPlace of_lane = {in_pages(call.heads, page_table, first + 8 * j).page, g};
      const char* const key = Format::key(call.heads, of_lane, kv_head);
      k[j].load(key, c, part);
      k[j + 1].load(key + Format::template bytes_of<typename Format::Keys>(8 * kDim), c, part);
    }
#pragma unroll
    for (int j = 0; j < kCut / 8 && !whole; ++j) {
      const int32_t p = first + 8 * j + g;
      if (is_there(keys, p)) k[j].load(Format::key(call.heads, place(p), kv_head), c, part);
    }
  }

  /// Of 16 keys: 2 c, 2 c + 1, 2 c + 8, 2 c + 9, which are the inputs that a thread has of a step.
  using ValuesOfLane = typename Format::Values::template Apart<kDim, 8>[kCut / 16][4];
  __device__ __forceinline__ void load_values(int32_t first, const KeyRange& keys, bool whole, int part,
                                              ValuesOfLane& v) const {
    const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, c = lane % 4;
#pragma unroll
    for (int t = 0; t < kCut / 16 && whole; ++t) {
      const KvPlace of_lane = {in_pages(call.heads, page_table, first + 16 * t).page, 2 * c};
      const char* const value = Format::value(call.heads, of_lane, kv_head);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        v[t][i].load(value + Format::template bytes_of<typename Format::Values>((i % 2 + i / 2 * 8) * kDim), g, part);
      }
    }
#pragma unroll
    for (int t = 0; t < kCut / 16 && !whole; ++t) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int32_t p = first + 16 * t + 2 * c + i % 2 + i / 2 * 8;
        if (is_there(keys, p)) v[t][i].load(Format::value(call.heads, place(p), kv_head), g, part);
      }
    }
  }

  /// Weights and extents of the cut that begins at position `first`; its values are then on their way.
  __device__ __forceinline__ void weigh(int warp, int32_t first, const KeyRange& keys, Weights& to) const {
    const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, c = lane % 4;
    to.has_own = own_at >= first && own_at < first + kCut;
    to.whole = first >= keys.begin && first + kCut <= keys.end && !to.has_own &&
               (first + kCut <= branch.first || first >= branch.first + branch.n);
    // Of a lane's key: what its score is multiplied by, and its weight.
    float2 scales = make_float2(1, 1);
    if (Format::kScaled) {
      const int32_t p = first + lane;
      if (is_there(keys, p)) {
        scales = Format::scales(call.heads, place(p), kv_head);
      } else {
        scales = p == own_at ? make_float2(shared.own_scales[0], shared.own_scales[1]) : make_float2(0, 0);
      }
    }
    typename Format::Keys::template Apart<kDim, 4> k[kParts][kCut / 8];
#pragma unroll
    for (int part = 0; part < kParts; ++part) load_keys(first, keys, to.whole, part, k[part]);
    if (kTogether) load_values(first, keys, to.whole, 0, to.v[0]);

    float s[kCut / 8][4] = {};
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
#pragma unroll
      for (int i = 0; i < kPart / 32; ++i) {
        const int column = part * (kPart / 32) + i;
        const char* const at = shared.queries + g * Shared<kDim>::kPitch + 64 * column + 16 * c;
        const uint4 low = *reinterpret_cast<const uint4*>(at);
        const uint4 high = *reinterpret_cast<const uint4*>(at + 8 * Shared<kDim>::kPitch);
#pragma unroll
        for (int j = 0; j < kCut / 8; ++j) {
          uint4 eight = k[part][j].to_bf16(i);
          if (to.has_own && first + 8 * j + g == own_at) {
            eight = *reinterpret_cast<const uint4*>(shared.own[0] + 32 * column + 8 * c);
          }
          multiply(s[j], {low.x, high.x, low.y, high.y}, eight.x, eight.y);
          multiply(s[j], {low.z, high.z, low.w, high.w}, eight.z, eight.w);
        }
      }
      if (!kTogether) {
        asm volatile("" ::: "memory");  // registers of keys are free now, and not before
        load_values(first, keys, to.whole, part, to.v[part]);
      }
    }

    float factors[kCut / 8][2];
    float2 of_values[kCut / 8];
#pragma unroll
    for (int j = 0; j < kCut / 8; ++j) {
      const int at = 8 * j + 2 * c;
      const float factor = call.scale * scales.x;
      factors[j][0] = Format::of_lane(factor, at), factors[j][1] = Format::of_lane(factor, at + 1);
      of_values[j] = make_float2(Format::of_lane(scales.y, at), Format::of_lane(scales.y, at + 1));
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const KeyRange range = shared.ranges[g + 8 * h];
      float highest = -CUDART_INF_F;
#pragma unroll
      for (int j = 0; j < kCut / 8; ++j) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int32_t p = first + 8 * j + 2 * c + e;
          float& score = s[j][2 * h + e];
          score = p >= range.begin && p < range.end ? score * factors[j][e] : -CUDART_INF_F;
          highest = fmaxf(highest, score);
        }
      }
      highest = quad_max(highest);
      const float base = highest == -CUDART_INF_F ? 0.0F : highest;
      float sum = 0;
#pragma unroll
      for (int j = 0; j < kCut / 8; ++j) {
        const float low = power_of_two((s[j][2 * h] - base) * CUDART_L2E_F);
        const float high = power_of_two((s[j][2 * h + 1] - base) * CUDART_L2E_F);
        to.weights[j][h] = Format::weigh(low, high, of_values[j], sum);
      }
      sum = quad_sum(sum);
      if (c == 0) shared.extents[warp][g + 8 * h] = {highest, sum};
    }
  }

  /// Sums of a part of the cut's values. queries: how many the tile has.
  __device__ __forceinline__ void add(int warp, int32_t first, int32_t queries, int part, const Weights& from) const {
    const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, c = lane % 4;
    const auto& weights = from.weights;
#pragma unroll
    for (int b = 0; b < kPart / 64; ++b) {
      float o[8][4] = {};
      uint4 eights[kCut / 16][4];
#pragma unroll
      for (int t = 0; t < kCut / 16; ++t) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          eights[t][i] = from.v[part][t][i].to_bf16(b);
          if (from.has_own && first + 16 * t + 2 * c + i % 2 + i / 2 * 8 == own_at) {
            eights[t][i] = *reinterpret_cast<const uint4*>(shared.own[1] + part * kPart + 64 * b + 8 * g);
          }
        }
      }
#pragma unroll
      for (int n = 0; n < 8; ++n) {
#pragma unroll
        for (int t = 0; t < kCut / 16; ++t) {
          multiply(o[n], {weights[2 * t][0], weights[2 * t][1], weights[2 * t + 1][0], weights[2 * t + 1][1]},
                   pair_of(eights[t][0], eights[t][1], n), pair_of(eights[t][2], eights[t][3], n));
        }
      }
      // Output 2 c + e of the eight of n is dimension 64 b + 8 (2 c + e) + n.
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        if (g + 8 * h >= queries) continue;
        float* const to = &shared.sums[warp][g + 8 * h][64 * b + 16 * c];
#pragma unroll
        for (int q = 0; q < 4; ++q) {
          const int n = q % 2 * 4, e = 2 * h + q / 2;
          *reinterpret_cast<float4*>(to + 4 * q) = make_float4(o[n][e], o[n + 1][e], o[n + 2][e], o[n + 3][e]);
        }
      }
    }
  }
};

}  // namespace ashlar::cuda
