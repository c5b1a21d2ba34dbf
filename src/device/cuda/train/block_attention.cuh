// SPDX-License-Identifier: Apache-2.0
#pragma once
// What both passes of the blocks' attention share. A block of threads has four warps; a warp has four rows of queries,
// and a lane one of 32 keys. Heads are padded with zeros to kPieces * 32 columns in shared memory.

#include "../kernels/device_math.cuh"
#include "block_rows.cuh"

namespace ashlar::cuda::block_attention {

inline constexpr int kWarps = 4;
inline constexpr int kThreads = 32 * kWarps;
inline constexpr int kRowsOfWarp = 4;
inline constexpr int kRows = kWarps * kRowsOfWarp;
inline constexpr int kKeys = 32;
/// Floats from one row of keys to the next beyond the columns: lanes that read 16 bytes of their keys meet all banks.
inline constexpr int kPad = 4;

/// Rows [first, first + n) of a head at `column` into [kCount, kColumns + kGap], times `factor`; the rest are zeros.
template <int kCount, int kColumns, int kGap>
__device__ __forceinline__ void load_rows(const Matrix& from, int64_t first, int32_t n, int32_t column,
                                          int32_t head_dim, float factor, float* to) {
  for (int i = static_cast<int>(threadIdx.x); i < kCount * kColumns; i += kThreads) {
    const int r = i / kColumns, c = i % kColumns;
    const bool is_there = r < n && c < head_dim;
    to[r * (kColumns + kGap) + c] =
        is_there ? load(from.data, (first + r) * from.stride + column + c, from.is_f32) * factor : 0.0F;
  }
}

/// Products of this warp's rows with this lane's key.
template <int kColumns>
__device__ __forceinline__ void products(const float* rows, const float* keys, int32_t head_dim,
                                         float (&out)[kRowsOfWarp]) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const auto* const key = reinterpret_cast<const float4*>(keys + lane * (kColumns + kPad));
  const auto* const row = reinterpret_cast<const float4*>(rows + warp * kRowsOfWarp * kColumns);
#pragma unroll
  for (int r = 0; r < kRowsOfWarp; ++r) out[r] = 0;
  for (int i = 0; i < (head_dim + 3) / 4; ++i) {
    const float4 k = key[i];
#pragma unroll
    for (int r = 0; r < kRowsOfWarp; ++r) {
      const float4 q = row[r * (kColumns / 4) + i];
      out[r] = fmaf(q.x, k.x, fmaf(q.y, k.y, fmaf(q.z, k.z, fmaf(q.w, k.w, out[r]))));
    }
  }
}

/// fn(first key row, keys, place of the first in the document, or its own_place() in the block) for all keys that rows
/// from `row` of block `b` on may see.
template <class Fn>
__device__ __forceinline__ void for_keys(const TrainAttention& call, int32_t b, int32_t row, const Fn& fn) {
  const TrainBlock block = call.blocks[b];
  const int32_t begin = call.window == 0 ? 0 : max(0, block.n + row - call.window + 1);
  for (int32_t t = begin; t < block.n; t += kKeys) fn(int64_t{block.first} + t, min(kKeys, block.n - t), t);
  for (int32_t o = 0; o < call.block; o += kKeys) {
    fn(int64_t{call.context_rows} + int64_t{b} * call.block + o, min(kKeys, call.block - o), own_place(o));
  }
}

}  // namespace ashlar::cuda::block_attention
