// SPDX-License-Identifier: Apache-2.0
// Paged attention for rows of any kind: one token, a block to verify, a chunk of a prompt, a branch of drafts; of heads
// that attention_tiles.cu does not take.
//
// The law of a row and head, whatever shares the call: its keys are cut at multiples of 32 positions from 0. A score is
// one chain over head_dim; weights of a cut are relative to its highest score, and multiply values in the order of the
// positions. Eight cuts are a segment, which begins at a multiple of 256. Cuts of a segment are merged in ascending
// order by merge(), and so are segments. Keys that the row does not see take no part. The own key of a row without KV
// is the key at the end of its range.
//
// A block of threads has some heads of a row that share a key/value head, and all of their segments or, where there are
// few rows, some, which combine_kernel merges. A warp has a cut; a lane has a key for the scores and some dimensions
// for the values.

#include <algorithm>

#include "attention.cuh"

namespace ashlar::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = 32 * kWarps;
constexpr int kCut = 32;
static_assert(kSegment == kWarps * kCut);
constexpr int kMaxHeadDim = 512;  ///< as device/rows.h has it

__device__ __forceinline__ float add_pair(float sum, const float* q, uint32_t k) {
  const float2 two = unpack_bf16(k);
  return fmaf(q[1], two.y, fmaf(q[0], two.x, sum));
}

/// sums[h] = q[h] . k of an even number of dimensions d. q: [kHeads, d]. Eight numbers at a time where keys lie at
/// multiples.
template <class Numbers, int kHeads>
__device__ __forceinline__ void score(const float* q, const char* k, int32_t d, float (&sums)[kHeads]) {
#pragma unroll
  for (int h = 0; h < kHeads; ++h) sums[h] = 0;
  if (d % 8 != 0) {
    for (int32_t i = 0; i < d; i += 2) {
      const uint32_t pair = Numbers::pair(k, d, i);
#pragma unroll
      for (int h = 0; h < kHeads; ++h) sums[h] = add_pair(sums[h], q + h * d + i, pair);
    }
    return;
  }
#pragma unroll 8
  for (int32_t i = 0; i < d; i += 8) {
    const uint4 eight = Numbers::to_bf16(Numbers::eight(k, d, i / 8));
    const auto* const pairs = reinterpret_cast<const uint32_t*>(&eight);
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
#pragma unroll
      for (int p = 0; p < 4; ++p) sums[h] = add_pair(sums[h], q + h * d + i + 2 * p, pairs[p]);
    }
  }
}

/// work(x) with a vector of d numbers in shared memory as a warp has it; the vector becomes what x then is.
template <int kMine, class Work>
__device__ __forceinline__ void in_shared(float* vector, int32_t d, const Work& work) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float x[kMine];
#pragma unroll
  for (int i = 0; i < kMine; ++i) x[i] = lane + 32 * i < d ? vector[lane + 32 * i] : 0.0F;
  work(x);
#pragma unroll
  for (int i = 0; i < kMine; ++i) {
    if (lane + 32 * i < d) vector[lane + 32 * i] = x[i];
  }
}

/// An answer in the coordinates of the cache, by a warp, to where it goes in its own.
template <int kMine>
__device__ __forceinline__ void write_rotated_back(const float* answer, int32_t d, __nv_bfloat16* out) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float x[kMine];
#pragma unroll
  for (int i = 0; i < kMine; ++i) x[i] = lane + 32 * i < d ? answer[lane + 32 * i] : 0.0F;
  StridedVector<kMine>::rotate_back(x, d);
#pragma unroll
  for (int i = 0; i < kMine; ++i) {
    if (lane + 32 * i < d) out[lane + 32 * i] = __float2bfloat16_rn(x[i]);
  }
}

/// Floats that queries take, or the row's own key and value. Sixteen bytes at a time are read of them, the last ones in
/// part: what follows, which others write meanwhile or which is not there, must not be among those.
__host__ __device__ constexpr int32_t query_room(int32_t heads, int32_t d) { return (heads * d + 3) / 4 * 4; }

/// kPairs: of dimensions that a lane has: 2 lane, 2 lane + 1, and the same further on by multiples of 64. kHeads: heads
/// of a block, all of one key/value head.
template <int kPairs, int kHeads, class Format>
__global__ void __launch_bounds__(kThreads) attention_kernel(const __grid_constant__ AttentionCall call) {
  begin_kernel();
  constexpr int kMine = (64 * kPairs * kHeads + kThreads - 1) / kThreads;  // elements of the answer of a thread
  extern __shared__ __align__(16) float shared[];
  __shared__ Extent extents[kWarps][kHeads];
  __shared__ float own_scales[2];
  const HeadsCall& heads = call.heads;
  const int32_t d = heads.head_dim;
  float* const query = shared;                         // [kHeads, head_dim]
  float* const sums = shared + query_room(kHeads, d);  // [kWarps, kHeads, head_dim]: of a cut each
  // The row's own key and value, which lie at any address in the call's rows, as bf16 of the codes
  // that they have themselves; the cache codes what was not rounded to bf16 yet.
  using Own = PlainNumbers;
  auto* const own = reinterpret_cast<__nv_bfloat16*>(sums + kWarps * kHeads * d);  // [2, head_dim]

  const int32_t group = heads.q_heads / heads.n_kv_heads, parts = (group + kHeads - 1) / kHeads;
  const auto row = static_cast<int32_t>(blockIdx.x);
  const int32_t kv_head = static_cast<int32_t>(blockIdx.y) / parts;
  const int32_t first_of_group = static_cast<int32_t>(blockIdx.y) % parts * kHeads;
  const int32_t here = min(kHeads, group - first_of_group), first_head = kv_head * group + first_of_group;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const auto* const in_row = static_cast<const __nv_bfloat16*>(heads.qkv) + row * heads.stride;
  const bool sees_itself = heads.without_kv != nullptr && heads.without_kv[row] != 0;
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < kHeads * d; i += kThreads) {
    query[i] = i < here * d ? __bfloat162float(in_row[int64_t{first_head} * d + i]) : 0.0F;
  }
  if constexpr (Format::kRotated) {
    __syncthreads();
    if (warp < here) {
      in_shared<kPairs * 2>(query + warp * d, d, [d](auto& x) { StridedVector<kPairs * 2>::rotate(x, d); });
    }
  }
  if (sees_itself && warp < 2) {
    const auto* const from = in_row + (int64_t{heads.q_heads} + warp * heads.n_kv_heads + kv_head) * d + lane;
    const float scale = Format::template read_back<kPairs * 2>(
        d, warp == 1, [&](int j) { return __bfloat162float(from[32 * j]); }, own + warp * d);
    if (lane == 0) own_scales[warp] = scale;
  }
  __syncthreads();

  const int32_t begin = call.begin[row], end = call.end[row];
  const int32_t all = sees_itself ? end + 1 : end;
  const int32_t* const page_table = heads.page_tables[heads.tables[row]];
  const Branch branch = heads.branches != nullptr ? heads.branches[heads.tables[row]] : Branch{0, 0, nullptr};
  const int32_t own_at = sees_itself ? end : -1;

  const int32_t first_cut = begin / kCut, cut_end = begin < all ? (all + kCut - 1) / kCut : first_cut;
  Extent total[kMine];
  float answer[kMine] = {};
#pragma unroll
  for (int j = 0; j < kMine; ++j) total[j] = {-CUDART_INF_F, 0};
  const int32_t segment_end = (cut_end + kWarps - 1) / kWarps;
  if (call.partial != nullptr && segment_end > call.max_segments) __trap();
  for (auto segment = first_cut / kWarps + static_cast<int32_t>(blockIdx.z); segment < segment_end;
       segment += static_cast<int32_t>(gridDim.z)) {
    const int32_t cut = segment * kWarps + warp;
    const int32_t first_warp = max(first_cut - segment * kWarps, 0), warps = min(cut_end - segment * kWarps, kWarps);
    if (warp >= first_warp && warp < warps) {
      const int32_t p = cut * kCut + lane;
      const bool seen = p >= begin && p < all;
      float weights[kHeads] = {};
      const char* v_of_lane = nullptr;
      float2 scales = make_float2(1, 1);
      if (seen && p == own_at) {
        score<Own>(query, reinterpret_cast<const char*>(own), d, weights);
        scales = make_float2(own_scales[0], own_scales[1]);
      } else if (seen) {
        const KvPlace place = place_of(heads, page_table, branch, p);
        scales = Format::scales(heads, place, kv_head);
        score<typename Format::Keys>(query, Format::key(heads, place, kv_head), d, weights);
        v_of_lane = Format::value(heads, place, kv_head);
      }
      const float factor = call.scale * scales.x;
#pragma unroll
      for (int h = 0; h < kHeads; ++h) {
        const float s = seen ? weights[h] * factor : -CUDART_INF_F;
        const float maximum = warp_max(s);
        weights[h] = seen && maximum > -CUDART_INF_F ? expf(s - maximum) : 0.0F;
        const float sum = warp_sum(weights[h]);
        if (lane == 0) extents[warp][h] = {maximum, sum};
        weights[h] *= scales.y;
      }
      float2 values[kHeads][kPairs] = {};
      const auto address = reinterpret_cast<unsigned long long>(v_of_lane);
#pragma unroll 8
      for (int key = 0; key < kCut; ++key) {
        const auto* const v = reinterpret_cast<const char*>(__shfl_sync(~0u, address, key));
        const bool is_own = cut * kCut + key == own_at;
        float2 loaded[kPairs];
#pragma unroll
        for (int i = 0; i < kPairs; ++i) {
          const int32_t c = i * 64 + 2 * lane;
          loaded[i] = make_float2(0, 0);
          if (v != nullptr && c < d) loaded[i] = unpack_bf16(Format::Values::pair(v, d, c));
          if (is_own && c < d) loaded[i] = unpack_bf16(Own::pair(reinterpret_cast<const char*>(own + d), d, c));
        }
#pragma unroll
        for (int h = 0; h < kHeads; ++h) {
          const float w = __shfl_sync(~0u, weights[h], key);
#pragma unroll
          for (int i = 0; i < kPairs; ++i) {
            values[h][i].x = fmaf(w, loaded[i].x, values[h][i].x);
            values[h][i].y = fmaf(w, loaded[i].y, values[h][i].y);
          }
        }
      }
#pragma unroll
      for (int h = 0; h < kHeads; ++h) {
#pragma unroll
        for (int i = 0; i < kPairs; ++i) {
          const int32_t c = i * 64 + 2 * lane;
          if (c >= d) continue;
          float* const to = sums + (warp * kHeads + h) * d + c;
          to[0] = values[h][i].x, to[1] = values[h][i].y;
        }
      }
    }
    __syncthreads();
#pragma unroll
    for (int j = 0; j < kMine; ++j) {
      const int32_t i = static_cast<int32_t>(threadIdx.x) + j * kThreads;
      if (i >= here * d) continue;
      Extent mine{-CUDART_INF_F, 0};
      float value = 0;
      for (int w = first_warp; w < warps; ++w) {
        const float2 scales = merge(mine, extents[w][i / d]);
        value = value * scales.x + sums[w * kHeads * d + i] * scales.y;
      }
      if (call.partial == nullptr) {
        const float2 scales = merge(total[j], mine);
        answer[j] = answer[j] * scales.x + value * scales.y;
        continue;
      }
      const int64_t at = (int64_t{row} * heads.q_heads + first_head + i / d) * call.max_segments + segment;
      call.partial[at * d + i % d] = value;
      if (i % d == 0) call.extents[2 * at] = mine.maximum, call.extents[2 * at + 1] = mine.sum;
    }
    __syncthreads();
  }
  if (call.partial != nullptr) return;
  auto* const out = static_cast<__nv_bfloat16*>(call.out) + row * call.out_stride + int64_t{first_head} * d;
#pragma unroll
  for (int j = 0; j < kMine; ++j) {
    const int32_t i = static_cast<int32_t>(threadIdx.x) + j * kThreads;
    if (i >= here * d) continue;
    const float divisor = divisor_of(call, first_head + i / d, total[j]);
    const float value = divisor > 0 ? answer[j] / divisor : 0.0F;
    if constexpr (Format::kRotated) {
      query[i] = value;  // in the place of queries, which have been read
    } else {
      out[i] = __float2bfloat16_rn(value);
    }
  }
  if constexpr (Format::kRotated) {
    __syncthreads();
    if (warp < here) write_rotated_back<kPairs * 2>(query + warp * d, d, out + warp * d);
  }
}

/// Merges the segments of a row and head.
template <bool kRotated>
__global__ void __launch_bounds__(128) combine_kernel(const __grid_constant__ AttentionCall call) {
  __shared__ float rotated[kRotated ? kMaxHeadDim : 1];
  begin_kernel();
  const HeadsCall& heads = call.heads;
  const auto row = static_cast<int32_t>(blockIdx.x), head = static_cast<int32_t>(blockIdx.y);
  const int32_t begin = call.begin[row];
  const int32_t all = call.end[row] + (heads.without_kv != nullptr && heads.without_kv[row] != 0 ? 1 : 0);
  const int32_t segment_end = begin < all ? (all + kSegment - 1) / kSegment : 0;
  const int64_t first = (int64_t{row} * heads.q_heads + head) * call.max_segments;
  auto* const out = static_cast<__nv_bfloat16*>(call.out) + row * call.out_stride + int64_t{head} * heads.head_dim;
  for (auto i = static_cast<int32_t>(threadIdx.x); i < heads.head_dim; i += static_cast<int32_t>(blockDim.x)) {
    Extent total{-CUDART_INF_F, 0};
    float answer = 0;
#pragma unroll 4
    for (int32_t segment = begin / kSegment; segment < segment_end; ++segment) {
      const Extent next{call.extents[2 * (first + segment)], call.extents[2 * (first + segment) + 1]};
      const float2 scales = merge(total, next);
      answer = answer * scales.x + call.partial[(first + segment) * heads.head_dim + i] * scales.y;
    }
    const float divisor = divisor_of(call, head, total);
    const float value = divisor > 0 ? answer / divisor : 0.0F;
    if constexpr (kRotated) {
      rotated[i] = value;
    } else {
      out[i] = __float2bfloat16_rn(value);
    }
  }
  if constexpr (kRotated) {
    __syncthreads();
    if (threadIdx.x < 32) write_rotated_back<kMaxHeadDim / 32>(rotated, heads.head_dim, out);
  }
}

template <class Format, int kPairs, int kHeads>
void launch(cudaStream_t stream, const AttentionCall& call) {
  const int32_t d = call.heads.head_dim, group = call.heads.q_heads / call.heads.n_kv_heads;
  const int32_t blocks = call.heads.n_kv_heads * ((group + kHeads - 1) / kHeads);
  int32_t parts = 1;
  if (call.partial != nullptr) {
    const int32_t rows = call.heads.rows * blocks;
    parts = std::max(1, std::min(call.max_segments, (kEnoughBlocks + rows - 1) / rows));
  }
  const dim3 grid(static_cast<unsigned>(call.heads.rows), static_cast<unsigned>(blocks), static_cast<unsigned>(parts));
  const size_t shared =
      sizeof(float) * static_cast<size_t>(query_room(kHeads, d) + kWarps * kHeads * d + query_room(1, d));
  start(stream, {grid, kThreads, shared}, attention_kernel<kPairs, kHeads, Format>, call);
  if (call.partial == nullptr) return;
  const dim3 all_heads(static_cast<unsigned>(call.heads.rows), static_cast<unsigned>(call.heads.q_heads));
  start(stream, {all_heads, 128}, combine_kernel<Format::kRotated>, call);
}

}  // namespace

bool splits_segments(const HeadsCall& heads) {
  if (!has_tiles(heads)) return int64_t{heads.rows} * heads.q_heads < kEnoughBlocks;
  return int64_t{heads.rows} * heads.n_kv_heads < kEnoughBlocks / 2;
}

void attention(cudaStream_t stream, const AttentionCall& call) {
  static_assert(kMaxHeadDim <= 64 * 8);
  if (has_tiles(call.heads)) return attention_tiles(stream, call);
  const int32_t d = call.heads.head_dim;
  // Several heads together read keys and values once; where there are few rows, more blocks are worth more.
  const bool together =
      call.heads.q_heads > call.heads.n_kv_heads && int64_t{call.heads.rows} * call.heads.q_heads >= 256;
  with_format(call.heads.numbers, [&](auto format) {
    using Format = decltype(format);
    if (d <= 64) return together ? launch<Format, 1, 4>(stream, call) : launch<Format, 1, 1>(stream, call);
    // Rotated heads, whose size is a power of two, have tiles or are of another size.
    if constexpr (!Format::kRotated) {
      if (d <= 128) return together ? launch<Format, 2, 4>(stream, call) : launch<Format, 2, 1>(stream, call);
      if (d <= 256) return launch<Format, 4, 1>(stream, call);
    }
    launch<Format, 8, 1>(stream, call);
  });
}

}  // namespace ashlar::cuda
