// SPDX-License-Identifier: Apache-2.0
// Backward of the blocks' attention on the tensor cores, by the formulas of block_attention_gradient.cu. A block of
// threads has rows of queries and goes through their keys, or has keys and goes through the queries that may see them:
// every sum has one owner and a fixed order.

#include "tile_attention.cuh"

namespace ashlar::cuda::tile_attention {
namespace {

template <int kDim>
__global__ void __launch_bounds__(32 * kWarps) query_kernel(TrainAttention call, float scale) {
  __shared__ __align__(16) __nv_bfloat16 keys[kKeys * (kDim + kPad)];
  __shared__ __align__(16) __nv_bfloat16 values[kKeys * (kDim + kPad)];
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
      log_sums[side] =
          log_sum(call, rows.at[side], rows.head[side]);
      if (quad == 0) call.means[rows.at[side] * call.heads + rows.head[side]] = means[side];
    }
  }
  float d_q[kDim / 8][4] = {};

  for_keys<kDim>(call, b, kv_head, keys, values, [&](int32_t n, int32_t t) {
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
          const bool counts = visible(call, block, rows.r[i / 2], part + tile * 8 + 2 * quad + i % 2, n, t);
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
__global__ void __launch_bounds__(32 * kWarps) key_kernel(TrainAttention call, float scale) {
  __shared__ __align__(16) __nv_bfloat16 q[kQueries * (kDim + kPad)];
  __shared__ __align__(16) __nv_bfloat16 d_out[kQueries * (kDim + kPad)];
  __shared__ Query queries[kQueries];
  __shared__ int64_t places[kQueries][2];  // of a row of q and of d_out; -1: none
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, quad = lane % 4;
  const auto kv_head = static_cast<int32_t>(blockIdx.y);
  const int32_t group = call.heads / call.kv_heads;
  const int32_t context_tiles = (call.context_rows + kOwnKeys - 1) / kOwnKeys;
  const auto tile = static_cast<int32_t>(blockIdx.x);
  const bool of_context = tile < context_tiles;
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
  for (int64_t begin = 0; begin < count; begin += kQueries) {
    __syncthreads();
    if (threadIdx.x < kQueries) {
      const int64_t i = begin + threadIdx.x;
      Query query = {0, 0, -2, 0, 0, 0};
      int64_t to[2] = {-1, -1};
      if (i < count) {
        const auto in_block = static_cast<int32_t>(i % rows_of_block);
        query.index = range[0] + static_cast<int32_t>(i / rows_of_block);
        query.first = call.blocks[query.index].first, query.n = call.blocks[query.index].n;
        query.r = in_block % call.block;
        const int32_t head = kv_head * group + in_block / call.block;
        const int64_t row = int64_t{query.index} * call.block + query.r;
        query.log_sum = log_sum(call, row, head);
        query.mean = call.means[row * call.heads + head];
        to[0] = row * call.q.stride + head * kDim;
        to[1] = row * call.d_out.stride + head * kDim;
      }
      queries[threadIdx.x] = query;
      places[threadIdx.x][0] = to[0], places[threadIdx.x][1] = to[1];
    }
    __syncthreads();
    constexpr int kPieces = kDim / 8;
#pragma unroll 4
    for (int i = static_cast<int>(threadIdx.x); i < kQueries * kPieces; i += 32 * kWarps) {
      const int r = i / kPieces, c = i % kPieces * 8;
      uint4 of_q = {}, of_out = {};
      if (places[r][0] >= 0) {
        of_q = *reinterpret_cast<const uint4*>(static_cast<const __nv_bfloat16*>(call.q.data) + places[r][0] + c);
        of_out = *reinterpret_cast<const uint4*>(static_cast<const __nv_bfloat16*>(call.d_out.data) + places[r][1] + c);
      }
      *reinterpret_cast<uint4*>(q + r * (kDim + kPad) + c) = of_q;
      *reinterpret_cast<uint4*>(d_out + r * (kDim + kPad) + c) = of_out;
    }
    __syncthreads();
    for (int part = 0; part < kQueries; part += 16) {
      uint32_t counts = 0;  // a bit for each of this lane's pairs of key and query
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const Query& query = queries[part + i / 4 * 8 + 2 * quad + i % 2];
        if (is_seen_by(query, i / 2 % 2)) counts |= 1U << i;
      }
      if (!__any_sync(~0u, counts != 0)) continue;
      uint32_t of_weights[4], of_scores[4];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int at = (part + half * 8) * (kDim + kPad);
        float scores[4] = {}, d_weights[4] = {};
        multiply_rows<kDim>(scores, k, q + at);
        multiply_rows<kDim>(d_weights, v, d_out + at);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const Query& query = queries[part + half * 8 + 2 * quad + i % 2];
          const bool is_seen = (counts >> (half * 4 + i) & 1) != 0;
          scores[i] = is_seen ? __expf(scores[i] * scale - query.log_sum) : 0.0F;
          d_weights[i] = scores[i] * (d_weights[i] - query.mean) * scale;
        }
        of_weights[2 * half] = pack_bf16(scores[0], scores[1]), of_weights[2 * half + 1] = pack_bf16(scores[2], scores[3]);
        of_scores[2 * half] = pack_bf16(d_weights[0], d_weights[1]);
        of_scores[2 * half + 1] = pack_bf16(d_weights[2], d_weights[3]);
      }
      add_weighted<kDim>(d_v, of_weights, d_out + part * (kDim + kPad));
      add_weighted<kDim>(d_k, of_scores, q + part * (kDim + kPad));
    }
  }

#pragma unroll
  for (int side = 0; side < 2; ++side) {
    if (own[side] < 0) continue;
#pragma unroll
    for (int column = 0; column < kDim / 8; ++column) {
      const int32_t c = kv_head * kDim + column * 8 + 2 * quad;
      store_pair(call.d_k, own[side], c, d_k[column][2 * side], d_k[column][2 * side + 1]);
      store_pair(call.d_v, own[side], c, d_v[column][2 * side], d_v[column][2 * side + 1]);
    }
  }
}

template <int kDim>
void launch(cudaStream_t stream, const TrainAttention& call) {
  const float scale = 1 / sqrtf(static_cast<float>(kDim));
  if (call.n_blocks > 0) {
    const Shape shape = shape_of(call);
    query_kernel<kDim><<<shape.grid, shape.threads, 0, stream>>>(call, scale);
  }
  const unsigned tiles =
      blocks_for(call.context_rows, kOwnKeys) + blocks_for(int64_t{call.n_blocks} * call.block, kOwnKeys);
  key_kernel<kDim><<<dim3(tiles, static_cast<unsigned>(call.kv_heads)), 32 * kWarps, 0, stream>>>(call, scale);
}

}  // namespace

void backward(cudaStream_t stream, const TrainAttention& call) {
  with_head_dim(call, [&](auto head_dim) { launch<head_dim()>(stream, call); });
}

}  // namespace ashlar::cuda::tile_attention
