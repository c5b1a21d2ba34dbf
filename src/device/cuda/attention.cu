// Paged attention for rows of any kind: one token, a block to verify, a chunk of a prompt, a branch of drafts.
//
// The law of a row, whatever shares the call: its keys are cut at multiples of 256 positions from 0, a split in tiles of
// 32. A score is one chain over head_dim. Tiles of a split follow one another with a running maximum, from nothing in every
// split; splits are merged in ascending order by the same formula. Keys that the row does not see weigh zero. The own key
// of a row without KV is the key at the end of its range.
//
// A block of threads has a head of a row, a warp every eighth split of it; a lane has a key for the scores and some
// dimensions for the values.

#include <math_constants.h>

#include "heads.cuh"

namespace ashlar::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = 32 * kWarps;
constexpr int kSplit = 256;
constexpr int kMaxHeadDim = 512;  ///< as device/rows.h has it

/// Running maximum and sum of weights of some keys, and the weighted values elsewhere.
struct Extent {
  float maximum;
  float sum;
};

/// Takes in keys with `next`, whose maximum is a number. Returns what old and new values are multiplied by.
__device__ __forceinline__ float2 merge(Extent& extent, const Extent& next) {
  const float highest = fmaxf(extent.maximum, next.maximum);
  const float2 scales = make_float2(expf(extent.maximum - highest), expf(next.maximum - highest));
  extent.sum = extent.sum * scales.x + next.sum * scales.y;
  extent.maximum = highest;
  return scales;
}

__device__ __forceinline__ float add_pair(float sum, const float* q, const __nv_bfloat162& k) {
  const float2 two = __bfloat1622float2(k);
  return fmaf(q[1], two.y, fmaf(q[0], two.x, sum));
}

/// q . k, both of an even number of dimensions; 16 bytes at a time where keys lie at multiples of them.
__device__ __forceinline__ float score(const float* q, const __nv_bfloat16* k, int32_t d) {
  float sum = 0;
  if (d % 8 == 0) {
#pragma unroll 4
    for (int32_t i = 0; i < d; i += 8) {
      const uint4 eight = *reinterpret_cast<const uint4*>(k + i);
      const auto* const pairs = reinterpret_cast<const __nv_bfloat162*>(&eight);
#pragma unroll
      for (int p = 0; p < 4; ++p) sum = add_pair(sum, q + i + 2 * p, pairs[p]);
    }
    return sum;
  }
  for (int32_t i = 0; i < d; i += 2) sum = add_pair(sum, q + i, *reinterpret_cast<const __nv_bfloat162*>(k + i));
  return sum;
}

/// kPairs: of dimensions that a lane has: 2 lane, 2 lane + 1, and the same further on by multiples of 64.
template <int kPairs>
__global__ void __launch_bounds__(kThreads) attention_kernel(const __grid_constant__ AttentionCall call) {
  extern __shared__ __align__(16) float shared[];
  const HeadsCall& heads = call.heads;
  const int32_t d = heads.head_dim;
  float* const query = shared;     // [head_dim]
  float* const sums = shared + d;  // [kWarps, head_dim]: of a split each
  // The row's own key and value, which lie at any address in the call's rows.
  auto* const own = reinterpret_cast<__nv_bfloat16*>(sums + kWarps * d);  // [2, head_dim]
  __shared__ Extent extents[kWarps];
  const auto row = static_cast<int32_t>(blockIdx.x), head = static_cast<int32_t>(blockIdx.y);
  const int32_t kv_head = head / (heads.q_heads / heads.n_kv_heads);
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const auto* const in_row = static_cast<const __nv_bfloat16*>(heads.qkv) + row * heads.stride;
  const bool sees_itself = heads.without_kv != nullptr && heads.without_kv[row] != 0;
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < d; i += kThreads) {
    query[i] = __bfloat162float(in_row[int64_t{head} * d + i]);
    if (!sees_itself) continue;
    own[i] = in_row[(int64_t{heads.q_heads} + kv_head) * d + i];
    own[d + i] = in_row[(int64_t{heads.q_heads} + heads.n_kv_heads + kv_head) * d + i];
  }
  __syncthreads();

  const int32_t begin = call.begin[row], end = call.end[row];
  const int32_t all = sees_itself ? end + 1 : end;
  const int32_t* const page_table = heads.page_tables[heads.tables[row]];
  const Branch branch = heads.branches != nullptr ? heads.branches[heads.tables[row]] : Branch{0, 0, nullptr};
  const auto place = [&](int32_t p, bool value) -> const __nv_bfloat16* {
    if (p == end) return own + (value ? d : 0);
    if (p >= branch.first && p < branch.first + branch.n) {
      return in_scratch(heads, branch.slots[p - branch.first], kv_head, value);
    }
    return in_pages(heads, page_table, p, kv_head, value);
  };

  const int32_t first_split = begin / kSplit, split_end = begin < all ? (all + kSplit - 1) / kSplit : first_split;
  Extent total{-CUDART_INF_F, 0};
  float answer[(kMaxHeadDim + kThreads - 1) / kThreads] = {};  // of dimensions threadIdx.x, + kThreads
  for (int32_t round = first_split; round < split_end; round += kWarps) {
    const int32_t split = round + warp;
    if (split < split_end) {
      Extent mine{-CUDART_INF_F, 0};
      float2 values[kPairs] = {};
      const int32_t from = max(begin, split * kSplit), to = min(all, (split + 1) * kSplit);
      for (int32_t tile = from / 32; tile * 32 < to; ++tile) {
        const int32_t p = tile * 32 + lane;
        const bool seen = p >= from && p < to;
        const float s = seen ? score(query, place(p, false), d) * call.scale : -CUDART_INF_F;
        Extent now{warp_max(s), 0};
        if (now.maximum == -CUDART_INF_F) continue;
        const float weight = seen ? expf(s - now.maximum) : 0.0F;
        now.sum = warp_sum(weight);
        const float2 scales = merge(mine, now);
#pragma unroll
        for (int i = 0; i < kPairs; ++i) values[i].x *= scales.x, values[i].y *= scales.x;
        const auto address = reinterpret_cast<unsigned long long>(seen ? place(p, true) : nullptr);
#pragma unroll 4
        for (int key = 0; key < 32; ++key) {
          const float w = __shfl_sync(~0u, weight, key) * scales.y;
          const auto* const v = reinterpret_cast<const __nv_bfloat16*>(__shfl_sync(~0u, address, key));
#pragma unroll
          for (int i = 0; i < kPairs; ++i) {
            const int32_t c = i * 64 + 2 * lane;
            if (v == nullptr || c >= d) continue;
            const float2 two = __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(v + c));
            values[i].x = fmaf(w, two.x, values[i].x);
            values[i].y = fmaf(w, two.y, values[i].y);
          }
        }
      }
#pragma unroll
      for (int i = 0; i < kPairs; ++i) {
        const int32_t c = i * 64 + 2 * lane;
        if (c < d) sums[warp * d + c] = values[i].x, sums[warp * d + c + 1] = values[i].y;
      }
      if (lane == 0) extents[warp] = mine;
    }
    __syncthreads();
    for (int w = 0; w < kWarps && round + w < split_end; ++w) {
      if (extents[w].maximum == -CUDART_INF_F) continue;
      const float2 scales = merge(total, extents[w]);
      for (int32_t i = static_cast<int32_t>(threadIdx.x), j = 0; i < d; i += kThreads, ++j) {
        answer[j] = answer[j] * scales.x + sums[w * d + i] * scales.y;
      }
    }
    __syncthreads();
  }
  auto* const out = static_cast<__nv_bfloat16*>(call.out) + row * call.out_stride + int64_t{head} * d;
  for (int32_t i = static_cast<int32_t>(threadIdx.x), j = 0; i < d; i += kThreads, ++j) {
    out[i] = __float2bfloat16_rn(total.sum > 0 ? answer[j] / total.sum : 0.0F);
  }
}

template <int kPairs>
void launch(cudaStream_t stream, const AttentionCall& call) {
  const dim3 grid(static_cast<unsigned>(call.heads.rows), static_cast<unsigned>(call.heads.q_heads));
  const size_t shared = sizeof(float) * static_cast<size_t>((kWarps + 2) * call.heads.head_dim);
  attention_kernel<kPairs><<<grid, kThreads, shared, stream>>>(call);
}

}  // namespace

void attention(cudaStream_t stream, const AttentionCall& call) {
  const int32_t d = call.heads.head_dim;
  if (d <= 64) return launch<1>(stream, call);
  if (d <= 128) return launch<2>(stream, call);
  if (d <= 256) return launch<4>(stream, call);
  launch<8>(stream, call);
}

}  // namespace ashlar::cuda
