// SPDX-License-Identifier: Apache-2.0
// Paged attention on the tensor cores, for head_dim 64, 128 and 256.
//
// The law of a row and head, whatever shares the call: its keys are cut at multiples of 32 positions from 0. A score is
// one chain of m16n8k16 steps over head_dim. Weights of a cut are relative to its highest score and rounded to bf16;
// they are summed as rounded (of codes a weight times its value's scale is rounded, and weights are summed before), and
// multiply values in two steps of 16 keys. Eight cuts are a segment, which begins at a multiple of 256: relative to the
// highest score of all its cuts, they are added up in ascending order. Segments are merged in ascending order by
// merge(). Cuts and segments without a key that the row sees take no part. The own key of a row without KV is the key
// at the end of its range.
//
// A tile is up to 16 queries: the heads of a block, which share a key/value head, of consecutive rows that share a page
// table and whose ranges of keys overlap. The instruction never mixes rows of a tile, and keys that a row does not see
// weigh zero, so which rows share a tile decides about nothing. A warp has a cut. Keys and values go from memory to
// registers, 16 bytes at a time: which inputs of a step are which dimensions is free as long as queries and keys agree,
// and so is which outputs are which dimensions. Where blocks share the segments of a tile, the one that comes last
// merges them: another kernel would take longer.

#include <algorithm>

#include "attention_cut.cuh"

namespace ashlar::cuda {
namespace {

constexpr int kThreads = 32 * kTileWarps;

/// Whether this block is the last of `blocks` that wrote what one of them goes on with, which it then sees. `arrivals`
/// is 0 before and after. Asked by all threads; is_last: in shared memory.
__device__ __forceinline__ bool comes_last(int32_t* arrivals, int32_t blocks, bool& is_last) {
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    is_last = atomicAdd(arrivals, 1) == blocks - 1;
    if (is_last) *arrivals = 0;
    __threadfence();
  }
  __syncthreads();
  return is_last;
}

/// A block has the tiles that begin in a window of rows, or only that which begins at its row.
struct Windows {
  int32_t rows;     ///< of a window: most rows of a tile
  int32_t heads;    ///< of a block
  bool of_one_row;  ///< blockIdx.x is a row, else a window
};

/// Quads, which are four dimensions of the answers of a tile, of a thread: those of a part, then those of the next.
template <int kDim>
struct Quads {
  static constexpr int kPart = kPartDim<kDim>, kParts = kDim / kPart;
  static constexpr int kOfPart = kTileRows * kPart / 4 / kThreads, kAll = kParts * kOfPart;
  static __device__ __forceinline__ int32_t at(int j) {
    return static_cast<int32_t>(threadIdx.x) + j % kOfPart * kThreads;
  }
  static __device__ __forceinline__ int32_t query(int j) { return at(j) / (kPart / 4); }
  static __device__ __forceinline__ int32_t dim_of_part(int j) { return at(j) % (kPart / 4) * 4; }
  static __device__ __forceinline__ int32_t dim(int j) { return j / kOfPart * kPart + dim_of_part(j); }
};

/// kResident: blocks on a multiprocessor. One alone has keys and values on their way together, two hide each other's
/// waits. Of heads of 256 registers hold those of one, which has as many bytes on their way as two of 128.
template <int kDim, int kResident, class Format>
__global__ void __launch_bounds__(kThreads, kResident)
    tile_kernel(const __grid_constant__ AttentionCall call, const __grid_constant__ Windows windows) {
  using Mine = Quads<kDim>;
  using CutOfWarp = Cut<kDim, kResident, Format>;
  extern __shared__ __align__(16) char raw[];
  auto& shared = *reinterpret_cast<Shared<kDim>*>(raw);
  begin_kernel();

  const HeadsCall& heads = call.heads;
  const int32_t group = heads.q_heads / heads.n_kv_heads, parts = (group + windows.heads - 1) / windows.heads;
  const int32_t kv_head = static_cast<int32_t>(blockIdx.y) / parts;
  const int32_t first_of_group = static_cast<int32_t>(blockIdx.y) % parts * windows.heads;
  const int32_t here = min(windows.heads, group - first_of_group), first_head = kv_head * group + first_of_group;
  const auto tid = static_cast<int32_t>(threadIdx.x);
  const int warp = tid / 32;
  const auto block = static_cast<int32_t>(blockIdx.x);
  const int32_t window = windows.of_one_row ? block / windows.rows * windows.rows : block * windows.rows;
  const int32_t last = min(window + windows.rows, heads.rows);
  if (call.wide_rows > 0) {
    const int32_t wide = window / call.wide_rows * call.wide_rows;
    KeyRange keys;
    if (is_wide(call, wide, min(wide + call.wide_rows, heads.rows), call.wide_rows, keys)) return;
  }

  // At once: row by row, each would wait for the one before it.
  if (tid < last - window) {
    const int32_t r = window + tid;
    shared.window[tid] = {{call.begin[r], call.end[r]}, heads.tables[r], sees_itself(heads, r)};
  }
  __syncthreads();
  for (int32_t row = window; row < last;) {
    const Tile tile = tile_at(shared.window + (row - window), row, last);
    row = tile.end;
    if (windows.of_one_row && tile.first != block) {
      if (tile.first > block) return;
      continue;
    }
    const int32_t queries = (tile.end - tile.first) * here;
    const WindowRow& first_row = shared.window[tile.first - window];
    const bool alone = first_row.alone;
    const int32_t table = first_row.table;
    const auto* const rows = static_cast<const __nv_bfloat16*>(heads.qkv);
#pragma unroll
    for (int j = 0; j < Mine::kOfPart; ++j) {
      const int32_t query = Mine::query(j), d = Mine::dim(j);
      const auto* const from =
          rows + (tile.first + query / here) * heads.stride + int64_t{first_head + query % here} * kDim + d;
      float fours[4 * Mine::kParts] = {};
#pragma unroll
      for (int i = 0; i < 4 * Mine::kParts; ++i) {
        if (query < queries) fours[i] = __bfloat162float(from[i / 4 * Mine::kPart + i % 4]);
      }
      if constexpr (Format::kRotated) VectorOfFours<kDim>::rotate(fours);
#pragma unroll
      for (int part = 0; part < Mine::kParts; ++part) {
        const float* const four = fours + 4 * part;
        *reinterpret_cast<uint2*>(shared.queries + query * Shared<kDim>::kPitch + 2 * (part * Mine::kPart + d)) =
            make_uint2(pack_bf16(four[0], four[1]), pack_bf16(four[2], four[3]));
      }
    }
    if (alone && warp < 2) {
      const int32_t head = heads.q_heads + warp * heads.n_kv_heads + kv_head;
      const auto* const from = rows + tile.first * heads.stride + int64_t{head} * kDim + tid % 32;
      const float scale = Format::template read_back<kDim / 32>(
          kDim, warp == 1, [&](int j) { return __bfloat162float(from[32 * j]); }, shared.own[warp]);
      if (tid % 32 == 0) shared.own_scales[warp] = scale;
    }
    if (tid < kTileRows) {
      const KeyRange keys = shared.window[tile.first - window + min(tid, queries - 1) / here].keys;
      shared.ranges[tid] = {keys.begin, keys.end + (alone ? 1 : 0)};
    }
    const CutOfWarp cut = {call,
                           shared,
                           heads.page_tables[table],
                           heads.branches != nullptr ? heads.branches[table] : Branch{0, 0, nullptr},
                           kv_head,
                           alone ? first_row.keys.end : -1};
    __syncthreads();

    Extent total[Mine::kAll];
    float4 answer[Mine::kAll];
#pragma unroll
    for (int j = 0; j < Mine::kAll; ++j) total[j] = {-CUDART_INF_F, 0}, answer[j] = make_float4(0, 0, 0, 0);
    const bool any = tile.keys.begin < tile.keys.end;
    const int32_t first_segment = tile.keys.begin / kSegment;
    const int32_t segment_end = any ? (tile.keys.end + kSegment - 1) / kSegment : first_segment;
    if (call.partial != nullptr && segment_end > call.max_segments) __trap();
    // A block that has all segments needs no others.
    const auto part = static_cast<int32_t>(blockIdx.z);
    const int32_t parts_of_tile = max(min(segment_end - first_segment, static_cast<int32_t>(gridDim.z)), 1);
    const bool is_shared = parts_of_tile > 1;
    if (part >= parts_of_tile) continue;
    for (int32_t segment = first_segment + part; segment < segment_end; segment += parts_of_tile) {
      const int32_t first = segment * kSegment + warp * kCut;
      const bool has_cut = first < tile.keys.end && first + kCut > tile.keys.begin;
      typename CutOfWarp::Weights weights;
      if (has_cut) {
        cut.weigh(warp, first, tile.keys, weights);
        cut.add(warp, first, queries, 0, weights);
      } else if (tid % 32 < kTileRows) {
        shared.extents[warp][tid % 32] = {-CUDART_INF_F, 0};
      }
      __syncthreads();
      if (tid < kTileWarps * kTileRows) {
        const int32_t query = tid % kTileRows;
        float highest = -CUDART_INF_F;
#pragma unroll
        for (int w = 0; w < kTileWarps; ++w) highest = fmaxf(highest, shared.extents[w][query].maximum);
        const float mine = shared.extents[tid / kTileRows][query].maximum;
        shared.scales[tid / kTileRows][query] = mine == -CUDART_INF_F ? 0.0F : expf(mine - highest);
      }
      __syncthreads();
#pragma unroll
      for (int j = 0; j < Mine::kAll; ++j) {
        if (j > 0 && j % Mine::kOfPart == 0) {  // the next part takes the place of the one before
          __syncthreads();
          if (has_cut) cut.add(warp, first, queries, j / Mine::kOfPart, weights);
          __syncthreads();
        }
        const int32_t query = Mine::query(j), d = Mine::dim(j);
        if (query >= queries) continue;
        Extent mine{-CUDART_INF_F, 0};
        float4 value = make_float4(0, 0, 0, 0);
#pragma unroll
        for (int w = 0; w < kTileWarps; ++w) {
          const float scale = shared.scales[w][query];
          if (scale == 0) continue;
          const Extent extent = shared.extents[w][query];
          const float4 more = *reinterpret_cast<const float4*>(&shared.sums[w][query][Mine::dim_of_part(j)]);
          mine.maximum = fmaxf(mine.maximum, extent.maximum);
          mine.sum = fmaf(extent.sum, scale, mine.sum);
          value = make_float4(fmaf(more.x, scale, value.x), fmaf(more.y, scale, value.y), fmaf(more.z, scale, value.z),
                              fmaf(more.w, scale, value.w));
        }
        if (!is_shared) {
          if (mine.maximum == -CUDART_INF_F) continue;
          add_segment(total[j], answer[j], mine, value);
          continue;
        }
        const int64_t place =
            (int64_t{tile.first + query / here} * heads.q_heads + first_head + query % here) * call.max_segments +
            segment;
        *reinterpret_cast<float4*>(call.partial + place * kDim + d) = value;
        if (d == 0) call.extents[2 * place] = mine.maximum, call.extents[2 * place + 1] = mine.sum;
      }
      __syncthreads();
    }
    if (is_shared) {
      int32_t* const arrivals = call.arrivals + tile.first * static_cast<int32_t>(gridDim.y) + blockIdx.y;
      if (!comes_last(arrivals, parts_of_tile, shared.is_last)) continue;
#pragma unroll
      for (int j = 0; j < Mine::kAll; ++j) {
        const int32_t query = Mine::query(j), d = Mine::dim(j);
        if (query >= queries) continue;
        const KeyRange range = shared.ranges[query];
        const int64_t first =
            (int64_t{tile.first + query / here} * heads.q_heads + first_head + query % here) * call.max_segments;
        const int32_t end = range.begin < range.end ? (range.end + kSegment - 1) / kSegment : 0;
#pragma unroll 4
        for (int32_t segment = range.begin / kSegment; segment < end; ++segment) {
          const float2 extent = __ldcg(reinterpret_cast<const float2*>(call.extents) + first + segment);
          const float4 value = __ldcg(reinterpret_cast<const float4*>(call.partial + (first + segment) * kDim + d));
          add_segment(total[j], answer[j], {extent.x, extent.y}, value);
        }
      }
      __syncthreads();  // the next tile's ranges take the place of these
    }
#pragma unroll
    for (int j = 0; j < Mine::kOfPart; ++j) {
      const int32_t query = Mine::query(j), d = Mine::dim(j);
      float fours[4 * Mine::kParts] = {};
      if (query < queries) {
#pragma unroll
        for (int part = 0; part < Mine::kParts; ++part) {
          const int of_part = part * Mine::kOfPart + j;
          const float divisor = divisor_of(call, first_head + query % here, total[of_part]);
          const float4& value = answer[of_part];
          const float values[4] = {value.x, value.y, value.z, value.w};
#pragma unroll
          for (int i = 0; i < 4; ++i) fours[4 * part + i] = divisor > 0 ? values[i] / divisor : 0.0F;
        }
      }
      if constexpr (Format::kRotated) VectorOfFours<kDim>::rotate_back(fours);
      if (query >= queries) continue;
      auto* const out = static_cast<__nv_bfloat16*>(call.out) + (tile.first + query / here) * call.out_stride +
                        int64_t{first_head + query % here} * kDim + d;
#pragma unroll
      for (int i = 0; i < 4 * Mine::kParts; ++i) {
        out[i / 4 * Mine::kPart + i % 4] = __float2bfloat16_rn(fours[i]);
      }
    }
  }
}

template <int kDim, int kResident, class Format>
void launch(cudaStream_t stream, dim3 grid, const AttentionCall& call, const Windows& windows) {
  constexpr size_t kShared = sizeof(Shared<kDim>);
  static OncePerDevice allowed;
  allow_shared_bytes(allowed, tile_kernel<kDim, kResident, Format>, static_cast<int>(kShared));
  start(stream, {grid, kThreads, kShared}, tile_kernel<kDim, kResident, Format>, call, windows);
}

template <int kDim, class Format>
void launch(cudaStream_t stream, const AttentionCall& call) {
  const HeadsCall& heads = call.heads;
  const int32_t group = heads.q_heads / heads.n_kv_heads;
  Windows windows;
  windows.heads = std::min(group, kTileRows);
  windows.rows = kTileRows / windows.heads;
  const int32_t parts = (group + windows.heads - 1) / windows.heads, columns = heads.n_kv_heads * parts;
  const int32_t full = (heads.rows + windows.rows - 1) / windows.rows;
  // Where windows are few their tiles run side by side, since rows of different sequences share none.
  windows.of_one_row = full * columns < kEnoughBlocks / 2;
  const int32_t blocks = windows.of_one_row ? heads.rows : full;
  int32_t segments = 1;
  if (call.partial != nullptr) {
    // Most of the blocks have nothing to do where rows share tiles, and wait for their turn all the same.
    segments = std::clamp((2 * kEnoughBlocks + blocks * columns - 1) / (blocks * columns), 1, call.max_segments);
  }
  const dim3 grid(static_cast<unsigned>(blocks), static_cast<unsigned>(columns), static_cast<unsigned>(segments));
  // Rows of a sequence share tiles, so that there may be fewer with work.
  const bool alone = heads.rows * columns * segments <= kEnoughBlocks / 2;
  if constexpr (kDim > 128) {
    launch<kDim, 1, Format>(stream, grid, call, windows);
  } else {
    alone ? launch<kDim, 1, Format>(stream, grid, call, windows) : launch<kDim, 2, Format>(stream, grid, call, windows);
  }
}

}  // namespace

void attention_tiles(cudaStream_t stream, const AttentionCall& call) {
  with_format(call.heads.numbers, [&](auto format) {
    using Format = decltype(format);
    switch (call.heads.head_dim) {
      case 64:
        return launch<64, Format>(stream, call);
      case 128:
        return launch<128, Format>(stream, call);
      default:
        return launch<256, Format>(stream, call);
    }
  });
}

}  // namespace ashlar::cuda
