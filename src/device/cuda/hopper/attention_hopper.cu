// SPDX-License-Identifier: Apache-2.0
// Which rows attention by Hopper's warpgroup instructions has. Any may: it decides about time and not about bits.

#include "attention_hopper_halves.cuh"

namespace ashlar::cuda {
namespace {

template <class Shape>
__global__ void __launch_bounds__(Shape::kThreads, 1)
    wide_kernel(const __grid_constant__ AttentionCall call, int32_t window_rows) {
  extern __shared__ char raw[];
  Shape::run(call, window_rows, raw);
}

template <class Shape>
void launch(cudaStream_t stream, const AttentionCall& call, int32_t window_rows, dim3 grid) {
  static OncePerDevice allowed;
  allow_shared_bytes(allowed, wide_kernel<Shape>, Shape::kSharedBytes);
  start(stream, {grid, Shape::kThreads, Shape::kSharedBytes}, wide_kernel<Shape>, call, window_rows);
}

}  // namespace

int32_t attention_hopper(cudaStream_t stream, const AttentionCall& call, int32_t multiprocessors) {
  const HeadsCall& heads = call.heads;
  const int32_t group = heads.q_heads / heads.n_kv_heads;
  if (!has_tiles(heads) || group > kTileQueries || call.partial != nullptr) return 0;
  // Of codes of long heads too few bytes would be on their way.
  const bool halves = heads.head_dim > 128;
  if (halves && heads.numbers != KvNumbers::kBF16) return 0;
  const auto aligned = [](const void* at, int64_t stride) {
    return reinterpret_cast<uintptr_t>(at) % 8 == 0 && stride % 4 == 0;
  };
  if (!aligned(heads.qkv, heads.stride) || !aligned(call.out, call.out_stride)) return 0;
  // Warpgroups have whole windows of attention_tiles.cu, which has what is left; those with half a head each the same.
  const int32_t tile_rows = kTileQueries / group, of_tile = 64 / group / tile_rows * tile_rows;
  const int32_t window_rows = halves ? of_tile : 2 * of_tile;
  const int32_t windows = (heads.rows + window_rows - 1) / window_rows;
  // The tiles of 16 queries, which take more time together, keep more multiprocessors busy.
  if (4 * windows * heads.n_kv_heads < multiprocessors) return 0;
  const dim3 grid(static_cast<unsigned>(heads.n_kv_heads), static_cast<unsigned>(windows));
  with_format(heads.numbers, [&](auto format) {
    using Format = decltype(format);
    if constexpr (!Format::kScaled) {
      if (halves) return launch<HopperHalves<Format>>(stream, call, window_rows, grid);
    }
    heads.head_dim == 64 ? launch<HopperAttention<64, Format>>(stream, call, window_rows, grid)
                         : launch<HopperAttention<128, Format>>(stream, call, window_rows, grid);
  });
  return window_rows;
}

}  // namespace ashlar::cuda
