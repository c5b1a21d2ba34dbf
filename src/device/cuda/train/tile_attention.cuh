// SPDX-License-Identifier: Apache-2.0
#pragma once
// The blocks' attention on the tensor cores: what both passes share. Queries, keys, values and their gradients are
// bf16, heads of kDim columns. The heads that share a key/value head stand one below the other: row i of a block is
// head i / block of them, row i % block of the block. The instruction multiplies 16 rows, 8 columns and 16 values at a
// time; of its sums a lane has those at rows lane / 4 and lane / 4 + 8, columns 2 (lane % 4) and the next.

#include <type_traits>

#include "../kernels/copies.cuh"
#include "../kernels/device_math.cuh"
#include "../kernels/pairs.cuh"
#include "block_rows.cuh"

namespace ashlar::cuda::tile_attention {

inline constexpr int kWarps = 4;
/// Values from one row of shared memory to the next beyond kDim: eight rows of 16 bytes meet all banks.
inline constexpr int kPad = 8;

/// Heads, types and addresses that these kernels are for.
inline bool takes(const Matrix& x) {
  return !x.is_f32 && x.stride % 8 == 0 && reinterpret_cast<uintptr_t>(x.data) % 16 == 0;
}
inline bool takes(const TrainAttention& call) {
  const bool width = call.head_dim == 32 || call.head_dim == 64 || call.head_dim == 128;
  return width && takes(call.q) && takes(call.k) && takes(call.v) && takes(call.out);
}
inline bool takes_gradients(const TrainAttention& call) {
  return takes(call) && takes(call.d_out) && takes(call.d_q) && takes(call.d_k) && takes(call.d_v);
}

__device__ __forceinline__ const __nv_bfloat16* place(const Matrix& x, int64_t row, int32_t column) {
  return static_cast<const __nv_bfloat16*>(x.data) + row * x.stride + column;
}
__device__ __forceinline__ uint32_t pair_at(const Matrix& x, int64_t row, int32_t column) {
  return *reinterpret_cast<const uint32_t*>(place(x, row, column));
}
__device__ __forceinline__ void store_pair(const Matrix& x, int64_t row, int32_t column, float low, float high) {
  *reinterpret_cast<uint32_t*>(static_cast<__nv_bfloat16*>(x.data) + row * x.stride + column) = pack_bf16(low, high);
}

/// sum[16, 8] = left [16, kDim] rows^T, of eight rows in shared memory.
template <int kDim>
__device__ __forceinline__ void multiply_rows(float (&sum)[4], const uint32_t (&left)[kDim / 16][4],
                                              const __nv_bfloat16* rows) {
  const int lane = threadIdx.x % 32;
  const uint32_t address = shared_address(rows + lane % 8 * (kDim + kPad) + lane / 8 * 8);
#pragma unroll
  for (int step = 0; step < kDim / 16; step += 2) {
    uint32_t right[4];
    load_matrices(right, address + 32 * step);
    multiply(sum, left[step], right[0], right[1]);
    multiply(sum, left[step + 1], right[2], right[3]);
  }
}

/// sums [16, kDim] += left [16, 16] rows, of 16 rows in shared memory.
template <int kDim>
__device__ __forceinline__ void add_weighted(float (&sums)[kDim / 8][4], const uint32_t (&left)[4],
                                             const __nv_bfloat16* rows) {
  const int lane = threadIdx.x % 32;
  const uint32_t address = shared_address(rows + lane % 16 * (kDim + kPad) + lane / 16 * 8);
#pragma unroll
  for (int column = 0; column < kDim / 8; column += 2) {
    uint32_t right[4];
    load_matrices_transposed(right, address + 16 * column);
    multiply(sums[column], left, right[0], right[1]);
    multiply(sums[column + 1], left, right[2], right[3]);
  }
}

/// Whether row `r` of a block sees what is at place `t` of its document, if anything is.
__device__ __forceinline__ bool sees(const TrainAttention& call, const TrainBlock& block, int32_t r, int32_t t) {
  return t >= 0 && t < block.n && is_in_window(call, block, r, t);
}

/// Keys of a tile of the kernels that belong to queries.
inline constexpr int kKeys = 64;
/// Values of two matrices of kKeys rows in shared memory, twice: one pair is multiplied while the other comes.
template <int kDim>
inline constexpr int kStage = 2 * kKeys*(kDim + kPad);
template <int kDim>
inline constexpr int kStagedBytes = 2 * kStage<kDim>* static_cast<int>(sizeof(__nv_bfloat16));

__device__ __forceinline__ void wait_for_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

/// Begins to copy rows [first, first + n) of keys or values to shared memory, with zeros up to a multiple of 16.
template <int kDim>
__device__ __forceinline__ void fetch_keys(const Matrix& from, int64_t first, int32_t n, int32_t column,
                                           __nv_bfloat16* to) {
  constexpr int kPieces = kDim / 8;
  const int count = (n + 15) / 16 * 16 * kPieces;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) {
    const int r = i / kPieces, c = i % kPieces * 8;
    copy_async(to + r * (kDim + kPad) + c, place(from, first + (r < n ? r : 0), column + c), r < n ? 16 : 0);
  }
}

/// The two rows of a lane in its warp's 16 of a block.
struct LaneRows {
  int64_t at[2];  ///< row of queries; -1: none
  int32_t r[2];   ///< in its block
  int32_t head[2];
};

__device__ __forceinline__ LaneRows lane_rows(const TrainAttention& call, int32_t b, int32_t kv_head) {
  const int32_t group = call.heads / call.kv_heads;
  const auto tile = static_cast<int32_t>(blockIdx.z * (blockDim.x / 32) + threadIdx.x / 32);
  LaneRows rows;
#pragma unroll
  for (int side = 0; side < 2; ++side) {
    const int32_t i = tile * 16 + static_cast<int32_t>(threadIdx.x % 32 / 4) + 8 * side;
    const bool is_there = i < group * call.block;
    rows.r[side] = is_there ? i % call.block : 0;
    rows.head[side] = kv_head * group + (is_there ? i / call.block : 0);
    rows.at[side] = is_there ? int64_t{b} * call.block + rows.r[side] : -1;
  }
  return rows;
}

/// A lane's two rows of a matrix, each of its head, as the instruction's left factor; rows that are not there: zeros.
template <int kDim>
__device__ __forceinline__ void load_left(const Matrix& x, const LaneRows& rows, uint32_t (&to)[kDim / 16][4]) {
  const int32_t begin = 2 * (threadIdx.x % 4);
#pragma unroll
  for (int step = 0; step < kDim / 16; ++step) {
#pragma unroll
    for (int side = 0; side < 2; ++side) {
      const int32_t c = rows.head[side] * kDim + begin + 16 * step;
      to[step][side] = rows.at[side] < 0 ? 0 : pair_at(x, rows.at[side], c);
      to[step][side + 2] = rows.at[side] < 0 ? 0 : pair_at(x, rows.at[side], c + 8);
    }
  }
}

/// What the keys of a tile are.
struct KeyTile {
  int64_t first;  ///< row of keys
  int32_t n;
  int32_t t;  ///< place of the first in the document, or its own_place() in the block
  /// Every row of the block sees all kKeys of them.
  __device__ bool is_whole(const TrainAttention& call) const { return t >= 0 && n == kKeys && call.window == 0; }
};

/// fn(tile, whole, its keys and values in shared memory) for all that rows of block `b` may see; `whole` is
/// std::true_type where KeyTile::is_whole(). `staged` has kStagedBytes.
template <int kDim, class Fn>
__device__ __forceinline__ void for_keys(const TrainAttention& call, int32_t b, int32_t kv_head, __nv_bfloat16* staged,
                                         const Fn& fn) {
  const TrainBlock block = call.blocks[b];
  const int32_t begin = call.window == 0 ? 0 : max(0, block.n - call.window + 1);
  const int32_t of_context = (max(0, block.n - begin) + kKeys - 1) / kKeys;
  const int32_t count = of_context + (call.block + kKeys - 1) / kKeys;
  const auto tile_at = [&](int32_t i) -> KeyTile {
    if (i < of_context) {
      const int32_t t = begin + i * kKeys;
      return {int64_t{block.first} + t, min(kKeys, block.n - t), t};
    }
    const int32_t o = (i - of_context) * kKeys;
    return {int64_t{call.context_rows} + int64_t{b} * call.block + o, min(kKeys, call.block - o), own_place(o)};
  };
  const auto fetch = [&](int32_t i) {
    const KeyTile tile = tile_at(i);
    __nv_bfloat16* const to = staged + i % 2 * kStage<kDim>;
    fetch_keys<kDim>(call.k, tile.first, tile.n, kv_head * kDim, to);
    fetch_keys<kDim>(call.v, tile.first, tile.n, kv_head * kDim, to + kKeys * (kDim + kPad));
  };
  fetch(0);
  for (int32_t i = 0; i < count; ++i) {
    wait_for_copies();
    __syncthreads();  // all copies are there, and all warps are done with the other stage
    if (i + 1 < count) fetch(i + 1);
    const KeyTile tile = tile_at(i);
    const __nv_bfloat16* const keys = staged + i % 2 * kStage<kDim>;
    const __nv_bfloat16* const values = keys + kKeys * (kDim + kPad);
    if (tile.is_whole(call)) {
      fn(tile, std::true_type(), keys, values);
    } else {
      fn(tile, std::false_type(), keys, values);
    }
  }
}

/// Whether key `key` of a tile that is not whole counts for row r.
__device__ __forceinline__ bool visible(const TrainAttention& call, const TrainBlock& block, int32_t r, int32_t key,
                                        const KeyTile& tile) {
  return key < tile.n && sees_key(call, block, r, tile.t, key);
}

/// fn(std::integral_constant of the heads' columns), which are 32, 64 or 128.
template <class Fn>
void with_head_dim(const TrainAttention& call, const Fn& fn) {
  if (call.head_dim == 32) return fn(std::integral_constant<int, 32>());
  if (call.head_dim == 64) return fn(std::integral_constant<int, 64>());
  fn(std::integral_constant<int, 128>());
}

/// Blocks of threads with a warp for each 16 rows of a block.
struct Shape {
  dim3 grid;
  unsigned threads;
};
inline Shape shape_of(const TrainAttention& call) {
  const int32_t tiles = (call.heads / call.kv_heads * call.block + 15) / 16;
  const int32_t warps = tiles < kWarps ? tiles : kWarps;
  return {dim3(static_cast<unsigned>(call.n_blocks), static_cast<unsigned>(call.kv_heads),
               static_cast<unsigned>((tiles + warps - 1) / warps)),
          static_cast<unsigned>(32 * warps)};
}

void forward(cudaStream_t stream, const TrainAttention& call);
void backward(cudaStream_t stream, const TrainAttention& call);

}  // namespace ashlar::cuda::tile_attention
