// SPDX-License-Identifier: Apache-2.0
// Which instance of the product serves a call. Any may: it decides about time and not about bits.

#include <algorithm>

#include "product_hopper.cuh"
#include "row_map.cuh"

namespace ashlar::cuda {
namespace {

// Sums of several segments take twice the registers; 168 is the most that warps of which three share a quarter of the
// register file can have.
template <class Shape>
__global__ void __launch_bounds__(Shape::kMostThreads, 1)
    product_kernel(const __grid_constant__ CUtensorMap map, const __grid_constant__ ProductCall call, int ring) {
  extern __shared__ char raw[];
  Shape::run(call, &map, raw, ring);
}

struct Tile {
  int32_t rows;
  int32_t warpgroups;
  float speed;  ///< measured, of a block that is alone on its multiprocessor: products per cycle, relative
};

constexpr Tile kTiles[] = {{8, 1, 0.5F}, {16, 1, 1.0F}, {32, 1, 2.0F}, {64, 1, 2.7F}, {128, 2, 4.9F}, {256, 2, 6.0F}};

/// The tile with the least estimated time: whole waves of blocks times a tile's work.
const Tile& tile_for(int32_t rows, int32_t n, int32_t multiprocessors) {
  const Tile* best = nullptr;
  float least = 0;
  for (const Tile& tile : kTiles) {
    // Up to 64 rows the weight is read once: the smallest tile that has them all.
    if (rows > 64 && tile.rows < 64) continue;
    if (rows <= 64 && (tile.rows < rows || (tile.rows > 8 && tile.rows >= 2 * rows))) continue;
    const int32_t features = kTile * tile.warpgroups;
    const int32_t blocks = (rows + tile.rows - 1) / tile.rows * ((n + features - 1) / features);
    const int32_t waves = (blocks + multiprocessors - 1) / multiprocessors;
    const float time = static_cast<float>(waves) * static_cast<float>(tile.rows * features) / tile.speed;
    if (best == nullptr || time < least) best = &tile, least = time;
  }
  return *best;
}

template <int kRows, int kWarpgroups, bool kSegments = false>
void launch(cudaStream_t stream, const ProductCall& call, const CUtensorMap& map, int32_t multiprocessors) {
  using Shape = HopperProduct<kRows, kWarpgroups, kRows <= 64 && kWarpgroups == 1 ? 2 : 1, kSegments>;
  constexpr int kFitting = std::min(16, (kMostShared - Shape::shared_bytes(0)) / (Shape::kStageBytes + 16));
  // About 64 blocks with more than 6 stages in flight lose a tenth of the bandwidth; more blocks gain from more.
  const int ring = kRows <= 32 && call.n <= 5120 ? std::min(6, kFitting) : kFitting;
  const int shared = shared_for(call, Shape::shared_bytes(ring));
  static OncePerDevice allowed;
  allow_shared_bytes(allowed, product_kernel<Shape>, kMostShared);
  const int32_t items = (call.n + Shape::kFeatures - 1) / Shape::kFeatures * ((call.rows + kRows - 1) / kRows);
  const dim3 grid(static_cast<unsigned>(std::min(items, multiprocessors)));
  start(stream, {grid, Shape::kThreads, static_cast<size_t>(shared)}, product_kernel<Shape>, map, call, ring);
}

}  // namespace

bool product_hopper(cudaStream_t stream, const ProductCall& call, int32_t multiprocessors) {
  const auto aligned = [](const void* at, int64_t stride, int64_t bytes) {
    return reinterpret_cast<uintptr_t>(at) % 16 == 0 && stride * bytes % 16 == 0;
  };
  // Few rows share a block's segments among more blocks elsewhere.
  const bool fits = (call.splits == 1 || call.rows > 64) && call.bias == nullptr && call.group.rows == nullptr &&
                    call.n % kTile == 0 && call.width % 8 == 0 && aligned(call.x, call.x_stride, 2) &&
                    (call.finish == Finish::kFloat || aligned(call.out, call.out_stride, 2));
  if (!fits) return false;
  const int32_t rows = call.splits > 1 ? 128 : tile_for(call.rows, call.n, multiprocessors).rows;
  CUtensorMap map;
  if (!map_rows(call, rows, map)) return false;
  if (call.splits > 1) {
    launch<128, 2, true>(stream, call, map, multiprocessors);
    return true;
  }
  switch (rows) {
    case 8:
      launch<8, 1>(stream, call, map, multiprocessors);
      return true;
    case 16:
      launch<16, 1>(stream, call, map, multiprocessors);
      return true;
    case 32:
      launch<32, 1>(stream, call, map, multiprocessors);
      return true;
    case 64:
      launch<64, 1>(stream, call, map, multiprocessors);
      return true;
    case 128:
      launch<128, 2>(stream, call, map, multiprocessors);
      return true;
    default:
      launch<256, 2>(stream, call, map, multiprocessors);
      return true;
  }
}

}  // namespace ashlar::cuda
