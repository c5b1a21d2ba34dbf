// SPDX-License-Identifier: Apache-2.0
// Backward of the blocks' attention on the tensor cores, by the formulas of block_attention_gradient.cu. A block of
// threads has rows of queries and goes through their keys, or has keys and goes through the queries that may see them,
// or, of a context's keys, through a part of those queries, where there would be too few blocks of threads for a GPU:
// every sum has one owner and a fixed order.

#include <algorithm>

#include "device/cuda/once_per_device.h"
#include "tile_attention.cuh"

namespace ashlar::cuda::tile_attention {
namespace {

template <int kDim>
__global__ void __launch_bounds__(32 * kWarps) query_kernel(TrainAttention call, float scale) {
  extern __shared__ __align__(16) __nv_bfloat16 staged[];
  const auto b = static_cast<int32_t>(blockIdx.x), kv_head = static_cast<int32_t>(blockIdx.y);
  const int quad = threadIdx.x % 4;
  const TrainBlock block = call.blocks[b];
  const LaneRows rows = lane_rows(call, b, kv_head);
  uint32_t q[kDim / 16][4], d_out[kDim / 16][4];
  load_left<kDim>(call.q, rows, q);
  load_left<kDim>(call.d_out, rows, d_out);
  float means[2], log_sums[2];
  {
    uint32_t out[kDim / 16][4];
    load_left<kDim>(call.out, rows, out);
#pragma unroll
    for (int side = 0; side < 2; ++side) {
      float mean = 0;
#pragma unroll
      for (int step = 0; step < kDim / 16; ++step) {
#pragma unroll
        for (int half = 0; half < 4; half += 2) {
          const float2 x = unpack_bf16(out[step][side + half]), d = unpack_bf16(d_out[step][side + half]);
          mean = fmaf(x.x, d.x, fmaf(x.y, d.y, mean));
        }
      }
      means[side] = quad_sum(mean);
      log_sums[side] = 0;
      if (rows.at[side] < 0) continue;
      log_sums[side] = log_sum(call, rows.at[side], rows.head[side]);
      if (quad == 0) call.means[rows.at[side] * call.heads + rows.head[side]] = means[side];
    }
  }
  float d_q[kDim / 8][4] = {};

  for_keys<kDim>(call, b, kv_head, staged, [&](const KeyTile& of, auto whole, const auto* keys, const auto* values) {
    constexpr bool kWhole = decltype(whole)::value;
    const int32_t n = kWhole ? kKeys : of.n;
    for (int32_t part = 0; part < n; part += 16) {
      float d_scores[2][4];
#pragma unroll
      for (int tile = 0; tile < 2; ++tile) {
        const int at = (part + tile * 8) * (kDim + kPad);
        float scores[4] = {}, d_weights[4] = {};
        multiply_rows<kDim>(scores, q, keys + at);
        multiply_rows<kDim>(d_weights, d_out, values + at);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const bool counts = kWhole || visible(call, block, rows.r[i / 2], part + tile * 8 + 2 * quad + i % 2, of);
          const float weight = counts ? __expf(scores[i] * scale - log_sums[i / 2]) : 0.0F;
          d_scores[tile][i] = weight * (d_weights[i] - means[i / 2]) * scale;
        }
      }
      const uint32_t left[4] = {pack_bf16(d_scores[0][0], d_scores[0][1]), pack_bf16(d_scores[0][2], d_scores[0][3]),
                                pack_bf16(d_scores[1][0], d_scores[1][1]), pack_bf16(d_scores[1][2], d_scores[1][3])};
      add_weighted<kDim>(d_q, left, keys + part * (kDim + kPad));
    }
  });

#pragma unroll
  for (int side = 0; side < 2; ++side) {
    if (rows.at[side] < 0) continue;
#pragma unroll
    for (int column = 0; column < kDim / 8; ++column) {
      store_pair(call.d_q, rows.at[side], rows.head[side] * kDim + column * 8 + 2 * quad, d_q[column][2 * side],
                 d_q[column][2 * side + 1]);
    }
  }
}

/// Keys of a block of threads: 16 of each warp, of the context or of the blocks themselves, never of both.
constexpr int kOwnKeys = 16 * kWarps;
/// Queries in shared memory at once.
constexpr int kQueries = 64;

/// Parts of the queries of a tile of a context's keys: by the shapes alone, so that sums keep their order.
int32_t parts_of(const TrainAttention& call) {
  constexpr int64_t kBlocksOfThreads = 1024;  // twice what a GPU of 132 multiprocessors runs at once
  constexpr int64_t kMinBatches = 8, kMaxParts = 16;
  const int64_t tiles = int64_t{blocks_for(call.context_rows, kOwnKeys)} * call.kv_heads;
  if (tiles == 0) return 1;
  const int64_t batches = int64_t{call.max_blocks} * call.block * (call.heads / call.kv_heads) / kQueries;
  const int64_t wanted = (kBlocksOfThreads + tiles - 1) / tiles;
  return static_cast<int32_t>(std::clamp<int64_t>(std::min(wanted, batches / kMinBatches), 1, kMaxParts));
}

/// What a row of queries sees.
struct Query {
  int32_t first, n;  ///< of the block's context
  int32_t index;     ///< of the block
  int32_t r;         ///< in the block
  float log_sum;
  float mean;
};

/// Blocks [begin, end) have all queries that may see one of the keys [first, first + n).
__device__ __forceinline__ void find_blocks(const TrainAttention& call, int64_t first, int32_t n, bool of_context,
                                            int32_t (&range)[2]) {
  if (!of_context) {
    range[0] = static_cast<int32_t>((first - call.context_rows) / call.block);
    range[1] = static_cast<int32_t>((first + n - 1 - call.context_rows) / call.block) + 1;
    return;
  }
  __shared__ int32_t found[2];
  if (threadIdx.x == 0) found[0] = call.n_blocks, found[1] = 0;
  __syncthreads();
  for (auto b = static_cast<int32_t>(threadIdx.x); b < call.n_blocks; b += 32 * kWarps) {
    const TrainBlock block = call.blocks[b];
    const int64_t last = first + n - 1;
    if (block.first > last || int64_t{block.first} + block.n <= first) continue;
    // Row 0 of the block sees furthest back.
    if (call.window != 0 && block.n - (last - block.first) >= call.window) continue;
    atomicMin(&found[0], b);
    atomicMax(&found[1], b + 1);
  }
  __syncthreads();
  range[0] = found[0], range[1] = found[1];
}

template <int kDim>
__global__ void __launch_bounds__(32 * kWarps) key_kernel(TrainAttention call, float scale, int32_t parts) {
  static_assert(kQueries == kKeys);
  extern __shared__ __align__(16) __nv_bfloat16 staged[];  // queries and gradients of outputs, as kStagedBytes
  __shared__ Query queries[2][kQueries];
  __shared__ int64_t places[kQueries][2];  // of a row of q and of d_out; -1: none
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, quad = lane % 4;
  const auto kv_head = static_cast<int32_t>(blockIdx.y);
  const int32_t group = call.heads / call.kv_heads;
  const int32_t context_tiles = (call.context_rows + kOwnKeys - 1) / kOwnKeys;
  const bool of_context = static_cast<int32_t>(blockIdx.x) < context_tiles * parts;
  const int32_t tile =
      static_cast<int32_t>(blockIdx.x) / (of_context ? parts : 1) - (of_context ? 0 : context_tiles * (parts - 1));
  const int32_t part = of_context ? static_cast<int32_t>(blockIdx.x) % parts : 0;
  const int64_t all = call.context_rows + int64_t{call.n_blocks} * call.block;
  const int64_t first =
      of_context ? int64_t{tile} * kOwnKeys : call.context_rows + int64_t{tile - context_tiles} * kOwnKeys;
  const int64_t left_over = (of_context ? int64_t{call.context_rows} : all) - first;
  const int32_t n = left_over < kOwnKeys ? static_cast<int32_t>(left_over) : kOwnKeys;
  int64_t own[2];
  int32_t own_block[2] = {-1, -1}, slot[2] = {};
#pragma unroll
  for (int side = 0; side < 2; ++side) {
    const int at = warp * 16 + lane / 4 + 8 * side;
    own[side] = at < n ? first + at : -1;
    if (at >= n || of_context) continue;
    own_block[side] = static_cast<int32_t>((own[side] - call.context_rows) / call.block);
    slot[side] = static_cast<int32_t>((own[side] - call.context_rows) % call.block);
  }
  uint32_t k[kDim / 16][4], v[kDim / 16][4];
  const LaneRows keys = {{own[0], own[1]}, {}, {kv_head, kv_head}};
  load_left<kDim>(call.k, keys, k);
  load_left<kDim>(call.v, keys, v);
  float d_k[kDim / 8][4] = {}, d_v[kDim / 8][4] = {};
  const auto is_seen_by = [&](const Query& query, int side) {
    if (own[side] < 0) return false;
    if (!of_context) return query.index == own_block[side] && sees_own(call, query.r, slot[side]);
    return sees(call, {query.first, query.n}, query.r, static_cast<int32_t>(own[side] - query.first));
  };

  int32_t range[2];
  find_blocks(call, first, n, of_context, range);
  const int32_t rows_of_block = group * call.block;
  const int64_t count = range[1] > range[0] ? int64_t{range[1] - range[0]} * rows_of_block : 0;
  const int64_t all_batches = (count + kQueries - 1) / kQueries;
  const auto first_batch = static_cast<int32_t>(of_context ? all_batches * part / parts : 0);
  const auto batches = static_cast<int32_t>(of_context ? all_batches * (part + 1) / parts : all_batches);
  // Of this thread's query of a batch: all but what the passes before have left.
  const auto query_at = [&](int32_t batch, int32_t& head) {
    const int64_t i = int64_t{batch} * kQueries + threadIdx.x;
    Query query = {0, 0, -2, 0, 0, 0};
    if (i >= count) return query;
    const auto in_block = static_cast<int32_t>(i % rows_of_block);
    query.index = range[0] + static_cast<int32_t>(i / rows_of_block);
    query.first = call.blocks[query.index].first, query.n = call.blocks[query.index].n;
    query.r = in_block % call.block;
    head = kv_head * group + in_block / call.block;
    return query;
  };
  // Begins to copy a batch. Whether each of its queries sees every key of this block of threads.
  const auto fetch = [&](int32_t batch, Query& query, int32_t& head) {
    bool sees_all = true;
    if (threadIdx.x < kQueries) {
      query = query_at(batch, head);
      const int64_t row = int64_t{query.index} * call.block + query.r;
      places[threadIdx.x][0] = query.index < 0 ? -1 : row * call.q.stride + head * kDim;
      places[threadIdx.x][1] = query.index < 0 ? -1 : row * call.d_out.stride + head * kDim;
      sees_all = query.index >= 0 && of_context && n == kOwnKeys && call.window == 0 && query.first <= first &&
                 first + n <= int64_t{query.first} + query.n;
    }
    sees_all = __syncthreads_and(sees_all) != 0;
    constexpr int kPieces = kDim / 8;
    __nv_bfloat16* const to = staged + batch % 2 * kStage<kDim>;
#pragma unroll 4
    for (int i = static_cast<int>(threadIdx.x); i < kQueries * kPieces; i += 32 * kWarps) {
      const int r = i / kPieces, c = i % kPieces * 8;
      const int bytes = places[r][0] >= 0 ? 16 : 0;
      __nv_bfloat16* const at = to + r * (kDim + kPad) + c;
      copy_async(at, static_cast<const __nv_bfloat16*>(call.q.data) + (bytes > 0 ? places[r][0] + c : 0), bytes);
      copy_async(at + kQueries * (kDim + kPad),
                 static_cast<const __nv_bfloat16*>(call.d_out.data) + (bytes > 0 ? places[r][1] + c : 0), bytes);
    }
    if (threadIdx.x < kQueries && query.index >= 0) {
      const int64_t row = int64_t{query.index} * call.block + query.r;
      query.log_sum = log_sum(call, row, head);
      query.mean = call.means[row * call.heads + head];
    }
    return sees_all;
  };
  const auto add_batch = [&](auto whole, const Query* of_batch, const __nv_bfloat16* q, const __nv_bfloat16* d_out) {
    constexpr bool kWhole = decltype(whole)::value;
    for (int part = 0; part < kQueries; part += 16) {
      uint32_t counts = ~0U;  // a bit for each of this lane's pairs of key and query
      if constexpr (!kWhole) {
        counts = 0;
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          if (is_seen_by(of_batch[part + i / 4 * 8 + 2 * quad + i % 2], i / 2 % 2)) counts |= 1U << i;
        }
        if (!__any_sync(~0u, counts != 0)) continue;
      }
      uint32_t of_weights[4], of_scores[4];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int at = (part + half * 8) * (kDim + kPad);
        float scores[4] = {}, d_weights[4] = {};
        multiply_rows<kDim>(scores, k, q + at);
        multiply_rows<kDim>(d_weights, v, d_out + at);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const Query& query = of_batch[part + half * 8 + 2 * quad + i % 2];
          const bool is_seen = kWhole || (counts >> (half * 4 + i) & 1) != 0;
          scores[i] = is_seen ? __expf(scores[i] * scale - query.log_sum) : 0.0F;
          d_weights[i] = scores[i] * (d_weights[i] - query.mean) * scale;
        }
        of_weights[2 * half] = pack_bf16(scores[0], scores[1]),
                       of_weights[2 * half + 1] = pack_bf16(scores[2], scores[3]);
        of_scores[2 * half] = pack_bf16(d_weights[0], d_weights[1]);
        of_scores[2 * half + 1] = pack_bf16(d_weights[2], d_weights[3]);
      }
      add_weighted<kDim>(d_v, of_weights, d_out + part * (kDim + kPad));
      add_weighted<kDim>(d_k, of_scores, q + part * (kDim + kPad));
    }
  };

  Query query = {};
  int32_t head = 0;
  bool is_whole = false;
  if (batches > first_batch) is_whole = fetch(first_batch, query, head);
  for (int32_t batch = first_batch; batch < batches; ++batch) {
    if (threadIdx.x < kQueries) queries[batch % 2][threadIdx.x] = query;
    wait_for_copies();
    __syncthreads();  // this batch is there, and all warps are done with the other stage
    const bool was_whole = is_whole;
    if (batch + 1 < batches) is_whole = fetch(batch + 1, query, head);
    const __nv_bfloat16* const q = staged + batch % 2 * kStage<kDim>;
    const __nv_bfloat16* const d_out = q + kQueries * (kDim + kPad);
    if (was_whole) {
      add_batch(std::true_type(), queries[batch % 2], q, d_out);
    } else {
      add_batch(std::false_type(), queries[batch % 2], q, d_out);
    }
  }

#pragma unroll
  for (int side = 0; side < 2; ++side) {
    if (own[side] < 0) continue;
#pragma unroll
    for (int column = 0; column < kDim / 8; ++column) {
      const int32_t c = kv_head * kDim + column * 8 + 2 * quad;
      if (of_context && parts > 1) {
        const int64_t width = int64_t{call.kv_heads} * kDim;
        float* const sums = call.partial_sums + (int64_t{part} * call.context_rows + own[side]) * 2 * width + c;
        *reinterpret_cast<float2*>(sums) = {d_k[column][2 * side], d_k[column][2 * side + 1]};
        *reinterpret_cast<float2*>(sums + width) = {d_v[column][2 * side], d_v[column][2 * side + 1]};
        continue;
      }
      store_pair(call.d_k, own[side], c, d_k[column][2 * side], d_k[column][2 * side + 1]);
      store_pair(call.d_v, own[side], c, d_v[column][2 * side], d_v[column][2 * side + 1]);
    }
  }
}

// Adds the parts up, a pair of columns a thread: those of d_k of a row, then those of d_v.
__global__ void sum_kernel(TrainAttention call, int32_t parts) {
  const int32_t width = call.kv_heads * call.head_dim;
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const int64_t row = i / width;
  if (row >= call.context_rows) return;
  const auto c = static_cast<int32_t>(i % width) * 2;
  float2 sum = {0, 0};
  for (int32_t part = 0; part < parts; ++part) {
    const float2 more =
        *reinterpret_cast<const float2*>(call.partial_sums + (int64_t{part} * call.context_rows + row) * 2 * width + c);
    sum.x += more.x, sum.y += more.y;
  }
  if (c < width) {
    store_pair(call.d_k, row, c, sum.x, sum.y);
  } else {
    store_pair(call.d_v, row, c - width, sum.x, sum.y);
  }
}

template <int kDim>
void launch(cudaStream_t stream, const TrainAttention& call) {
  const float scale = 1 / sqrtf(static_cast<float>(kDim));
  if (call.n_blocks > 0) {
    static OncePerDevice queries_allowed;
    allow_shared_bytes(queries_allowed, query_kernel<kDim>, kStagedBytes<kDim>);
    const Shape shape = shape_of(call);
    query_kernel<kDim><<<shape.grid, shape.threads, kStagedBytes<kDim>, stream>>>(call, scale);
  }
  const int32_t parts = parts_of(call);
  const unsigned tiles = blocks_for(call.context_rows, kOwnKeys) * static_cast<unsigned>(parts) +
                         blocks_for(int64_t{call.n_blocks} * call.block, kOwnKeys);
  static OncePerDevice keys_allowed;
  allow_shared_bytes(keys_allowed, key_kernel<kDim>, kStagedBytes<kDim>);
  const dim3 grid(tiles, static_cast<unsigned>(call.kv_heads));
  key_kernel<kDim><<<grid, 32 * kWarps, kStagedBytes<kDim>, stream>>>(call, scale, parts);
  if (parts == 1) return;
  constexpr unsigned kThreads = 256;
  const int64_t pairs = int64_t{call.context_rows} * call.kv_heads * kDim;
  sum_kernel<<<blocks_for(pairs, kThreads), kThreads, 0, stream>>>(call, parts);
}

}  // namespace

void backward(cudaStream_t stream, const TrainAttention& call) {
  with_head_dim(call, [&](auto head_dim) { launch<head_dim()>(stream, call); });
}

}  // namespace ashlar::cuda::tile_attention

namespace ashlar::cuda {

int64_t partial_sums_of(const TrainAttention& call) {
  if (!tile_attention::takes_gradients(call)) return 0;
  const int32_t parts = tile_attention::parts_of(call);
  return parts == 1 ? 0 : int64_t{parts} * call.context_rows * 2 * call.kv_heads * call.head_dim;
}

}  // namespace ashlar::cuda
