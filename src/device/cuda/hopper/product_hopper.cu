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
__global__ void __launch_bounds__(Shape::kMaxThreads, 1)
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

template <int kRows, int kWarpgroups, bool kSegments = false, int kBlocks = 1>
void launch(cudaStream_t stream, const ProductCall& call, const CUtensorMap& map, int32_t multiprocessors) {
  constexpr int kDepth = kRows <= 64 && kWarpgroups == 1 ? 2 : 1;
  using Shape = HopperProduct<kRows, kWarpgroups, kDepth, kSegments, kBlocks>;
  constexpr int kFitting = std::min(16, (kMaxShared - Shape::shared_bytes(0)) / (Shape::kStageBytes + 16));
  // About 64 blocks with more than 6 stages in flight lose a tenth of the bandwidth; more blocks gain from more. What
  // is left of a ring that has all of a segment is room for the next kernel.
  const int most = kRows <= 32 && call.n <= 5120 ? std::min(6, kFitting) : kFitting;
  const int32_t in_128 = (call.k + kInputPad - 1) / kInputPad;
  const int ring = kBlocks > 1 ? std::min(most, (in_128 + kBlocks - 1) / kBlocks * (2 / kDepth)) : most;
  const int shared = shared_for(call, Shape::shared_bytes(ring));
  static OncePerDevice allowed;
  allow_shared_bytes(allowed, product_kernel<Shape>, kMaxShared);
  const int32_t items = (call.n + Shape::kFeatures - 1) / Shape::kFeatures * ((call.rows + kRows - 1) / kRows);
  const dim3 grid(static_cast<unsigned>(kBlocks > 1 ? items * kBlocks : std::min(items, multiprocessors)));
  start(stream, {grid, Shape::kThreads, static_cast<size_t>(shared), kBlocks}, product_kernel<Shape>, map, call, ring);
}

/// Few rows: a block for each segment of a sum.
template <int kRows>
void launch_few(cudaStream_t stream, const ProductCall& call, const CUtensorMap& map, int32_t multiprocessors) {
  switch (call.splits) {
    case 1:
      return launch<kRows, 1, false, 1>(stream, call, map, multiprocessors);
    case 2:
      return launch<kRows, 1, false, 2>(stream, call, map, multiprocessors);
    default:
      return launch<kRows, 1, false, 4>(stream, call, map, multiprocessors);
  }
}

/// Whether 64 rows of a tile and a block for each segment take less time than 128 rows and outputs and all segments in
/// one block, by an estimate: a wave of blocks takes a while to start and to end, and else as long as a tile's work.
bool segments_apart(const ProductCall& call, int32_t multiprocessors) {
  if (call.rows <= 64) return true;
  constexpr float kStart = 4.5e6F;  // in multiplications over a tile's speed, as what follows; measured, 3 us
  const auto time = [&](const Tile& tile, int32_t parts) {
    const int32_t features = kTile * tile.warpgroups;
    const int32_t blocks = (call.rows + tile.rows - 1) / tile.rows * ((call.n + features - 1) / features) * parts;
    const int32_t waves = (blocks + multiprocessors - 1) / multiprocessors;
    const float work =
        static_cast<float>(call.k) / static_cast<float>(parts) * static_cast<float>(tile.rows * features);
    return static_cast<float>(waves) * (kStart + work / tile.speed);
  };
  return time(kTiles[3], call.splits) < time(kTiles[4], 1);
}

bool aligned(const void* at, int64_t stride, int64_t bytes) {
  return reinterpret_cast<uintptr_t>(at) % 16 == 0 && stride * bytes % 16 == 0;
}

bool fits(const ProductCall& call) {
  return call.bias == nullptr && call.group.rows == nullptr && call.n % kTile == 0 && call.width % 8 == 0 &&
         aligned(call.x, call.x_stride, 2) && (call.finish == Finish::kFloat || aligned(call.out, call.out_stride, 2));
}

}  // namespace

bool takes_gathered_rows(const ProductCall& call) {
  return call.format == Packed::kBf16 && call.group.rows == nullptr && fits(call);
}

bool product_hopper(cudaStream_t stream, const ProductCall& call, int32_t multiprocessors) {
  if (!fits(call)) return false;
  CUtensorMap map;
  if (call.group.experts != nullptr) {
    if (!map_rows(call, kGatheredTile, map)) return false;
    if (call.splits > 1) {
      launch<kGatheredTile, 2, true>(stream, call, map, multiprocessors);
    } else {
      launch<kGatheredTile, 2>(stream, call, map, multiprocessors);
    }
    return true;
  }
  const bool together = call.splits > 1 && !segments_apart(call, multiprocessors);
  const int32_t tile = tile_for(call.rows, call.n, multiprocessors).rows;
  const int32_t rows = together ? 128 : call.splits > 1 ? std::min(tile, 64) : tile;
  if (!map_rows(call, rows, map)) return false;
  if (together) {
    launch<128, 2, true>(stream, call, map, multiprocessors);
    return true;
  }
  switch (rows) {
    case 8:
      launch_few<8>(stream, call, map, multiprocessors);
      return true;
    case 16:
      launch_few<16>(stream, call, map, multiprocessors);
      return true;
    case 32:
      launch_few<32>(stream, call, map, multiprocessors);
      return true;
    case 64:
      launch_few<64>(stream, call, map, multiprocessors);
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
