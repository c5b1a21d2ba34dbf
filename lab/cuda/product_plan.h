// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which instance of the product serves a call. The number of segments of K follows from the weight's shape alone, since it
// decides about bits; the tile follows from the number of rows, and decides about time only.

#include <algorithm>

#include "product.cuh"

namespace ashlar::cuda {

/// Stages of 128 inputs in flight for few rows. About 64 blocks with more than 6 lose a tenth of the bandwidth; more blocks
/// gain from more.
inline bool wants_short_ring(int n) { return n <= 5120; }

/// Segments of K. One chain wherever 64-output tiles alone keep memory busy (48 of them do on an H100); narrow weights of
/// small models take the fewest segments that do, each of at least 256 inputs.
inline int splits_of(int n, int k) {
  const int tiles = (n + 63) / 64;
  int splits = 1;
  while (tiles * splits < 48 && splits < 4 && k / (2 * splits) >= 256) splits *= 2;
  return splits;
}

struct Tile {
  int tokens;
  int warpgroups;
  bool cluster;  ///< segments of K by the blocks of a cluster
  float speed;   ///< measured, of a block that is alone on its multiprocessor: products per cycle, relative
};

inline constexpr Tile kTiles[] = {
    {8, 1, false, 0.5F},   {16, 1, false, 1.0F},  {32, 1, false, 2.0F},  {64, 1, false, 2.7F},
    {128, 1, false, 4.0F}, {128, 2, false, 4.9F}, {256, 2, false, 6.0F}, {8, 1, true, 0.5F},
    {16, 1, true, 1.0F},   {32, 1, true, 2.0F},   {64, 1, true, 2.5F},
};

/// The tile with the least estimated time: whole waves of blocks times a tile's work.
inline const Tile& tile_for(int rows, int n, int splits, int multiprocessors) {
  const Tile* best = nullptr;
  float least = 0;
  for (const Tile& tile : kTiles) {
    // Blocks of a cluster exchange their sums, which pays for few rows only; beyond that a block takes all segments.
    if (tile.cluster != (splits > 1 && rows <= 64)) continue;
    if (splits > 1 && tile.tokens == 256) continue;                  // no registers for a second set of sums
    // Up to 64 rows the weight is read once: the smallest tile that has them all.
    if (rows > 64 && tile.tokens < 64) continue;
    if (rows <= 64 && (tile.tokens < rows || (tile.tokens > 8 && tile.tokens >= 2 * rows))) continue;
    const int features = 64 * tile.warpgroups;
    const int parts = tile.cluster ? splits : 1;
    const int blocks = (rows + tile.tokens - 1) / tile.tokens * ((n + features - 1) / features) * parts;
    const int waves = (blocks + multiprocessors - 1) / multiprocessors;
    const float time = static_cast<float>(waves) * static_cast<float>(tile.tokens * features) / tile.speed / static_cast<float>(parts);
    if (best == nullptr || time < least) best = &tile, least = time;
  }
  return *best;
}

constexpr int stages_for(int stage, int extra) { return std::min(16, (226 * 1024 - 1024 - extra) / (stage + 16)); }

template <int kTokens, int kWarpgroups, bool kCluster, bool kTotals, Finish kFinish, int kMostStages = 16>
struct ProductInstance {
  static constexpr int kDepth = kTokens <= 64 && kWarpgroups == 1 ? 2 : 1;
  static constexpr int kStage = kDepth * (kWarpgroups * kTileBytes + kTokens * 128);
  static constexpr int kExtra = (kCluster ? 128 * kWarpgroups * kTokens * 2 : 0) + kWarpgroups * 4 * 1536;
  using Shape = Product<kTokens, kWarpgroups, kDepth, std::min(kMostStages, stages_for(kStage, kExtra)), kCluster, kTotals, kFinish>;

  static constexpr int kMostShared = std::max(Shape::kSharedBytes, 116 * 1024);

  /// `map`: the rows of x in boxes of 64 columns x kTokens rows. It should not end at the last row of the call: boxes that
  /// reach beyond their tensor are slower, and rows that are not stored do no harm.
  static cudaError_t launch(cudaStream_t stream, const CUtensorMap& map, const ProductCall& call, int blocks, bool dependent = true) {
    static const cudaError_t ready = cudaFuncSetAttribute(
        product_kernel<Shape>, cudaFuncAttributeMaxDynamicSharedMemorySize, kMostShared);
    if (ready != cudaSuccess) return ready;
    const int features = (call.n + Shape::kFeatures - 1) / Shape::kFeatures;
    const int items = features * ((call.rows + kTokens - 1) / kTokens);
    cudaLaunchAttribute attributes[2];
    unsigned count = 0;
    if (kCluster) {
      attributes[count].id = cudaLaunchAttributeClusterDimension;
      attributes[count++].val.clusterDim = {static_cast<unsigned>(call.splits), 1, 1};
    }
    if (dependent) {
      attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
      attributes[count++].val.programmaticStreamSerializationAllowed = 1;
    }
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(static_cast<unsigned>(kCluster ? items * call.splits : std::min(items, blocks)));
    config.blockDim = dim3(Shape::kThreads);
    // Never two blocks on a multiprocessor: those of a kernel that starts early would crowd on the first ones that are free.
    // Weights of a few megabytes are not about bandwidth and do better side by side.
    config.dynamicSmemBytes = int64_t{call.n} * call.k >= (int64_t{1} << 23) ? kMostShared : Shape::kSharedBytes;
    config.stream = stream;
    config.attrs = attributes;
    config.numAttrs = count;
    return cudaLaunchKernelEx(&config, product_kernel<Shape>, map, call);
  }
};

/// Launches the instance that `tile` names. `map` has boxes of tile.tokens rows.
template <Finish kFinish>
cudaError_t launch_product(cudaStream_t stream, const Tile& tile, const CUtensorMap& map, const ProductCall& call, int blocks) {
  const auto go = [&]<int kTokens, int kWarpgroups, bool kCluster, bool kTotals>() {
    if constexpr (kTokens <= 32 && !kCluster) {
      if (wants_short_ring(call.n)) {
        return ProductInstance<kTokens, kWarpgroups, kCluster, kTotals, kFinish, 6>::launch(stream, map, call, blocks);
      }
    }
    return ProductInstance<kTokens, kWarpgroups, kCluster, kTotals, kFinish>::launch(stream, map, call, blocks);
  };
  switch (tile.tokens) {
    case 8:
      return tile.cluster ? go.template operator()<8, 1, true, false>() : go.template operator()<8, 1, false, false>();
    case 16:
      return tile.cluster ? go.template operator()<16, 1, true, false>() : go.template operator()<16, 1, false, false>();
    case 32:
      return tile.cluster ? go.template operator()<32, 1, true, false>() : go.template operator()<32, 1, false, false>();
    case 64:
      if (tile.cluster) return go.template operator()<64, 1, true, false>();
      return call.splits > 1 ? go.template operator()<64, 1, false, true>() : go.template operator()<64, 1, false, false>();
    case 128:
      if (tile.warpgroups == 1) {
        return call.splits > 1 ? go.template operator()<128, 1, false, true>() : go.template operator()<128, 1, false, false>();
      }
      return call.splits > 1 ? go.template operator()<128, 2, false, true>() : go.template operator()<128, 2, false, false>();
    default:
      return go.template operator()<256, 2, false, false>();
  }
}

}  // namespace ashlar::cuda
