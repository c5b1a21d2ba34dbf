// SPDX-License-Identifier: Apache-2.0
#pragma once
// Products with weights of bf16 by Hopper's warpgroup instructions. Bits are those of product.cu: a k16 step has one
// rounding on Hopper, in mma.sync and in wgmma of any width alike, with either operand first (lab/cuda/README.md).
//
// 64 outputs of the weight are the first operand, kTokens rows of x the second. A producing warp keeps a ring of stages
// full: tiles of the weight by linear copies, since a row of tiles is contiguous, rows of x by boxes of a tensor map; a
// warpgroup for every 64 outputs consumes them. Blocks take tiles of the output in turn. Of few rows the segments of a
// sum are shared among the blocks of a cluster: few outputs alone would make too few blocks.

#include "../kernels/device_math.cuh"
#include "finish.cuh"
#include "hopper.cuh"
#include "tiles.cuh"
#include "wgmma.cuh"

namespace ashlar::cuda {

inline constexpr int kTileBytes = kTile * kTile * 2;

/// kTokens: rows of x in a tile. kWarpgroups: tiles of 64 outputs side by side. kDepth: tiles of 64 inputs in a stage.
/// kSegments: a block has all segments of a sum. kBlocks: of a cluster, which has one tile: 1, or the segments of a
/// sum.
template <int kTokens, int kWarpgroups, int kDepth, bool kSegments, int kBlocks = 1>
struct HopperProduct {
  static_assert(kBlocks == 1 || (kWarpgroups == 1 && !kSegments));
  static constexpr int kFeatures = kTile * kWarpgroups;
  static constexpr int kWeightBytes = kWarpgroups * kDepth * kTileBytes;
  static constexpr int kRowTileBytes = kTokens * 128;
  static constexpr int kStageBytes = kWeightBytes + kDepth * kRowTileBytes;
  static constexpr int kConsumers = 128 * kWarpgroups;
  static constexpr int kThreads = kConsumers + 32;
  static constexpr int kMaxThreads = kSegments ? 384 : kThreads;
  static constexpr bool kSquares = kTokens >= kSquareTokens;
  static constexpr int kSquareBytes = kSquares ? kConsumers / 32 * kSquareBytesOfWarp : 0;
  static constexpr int kSumBytesOfBlock = kTokens * kTile * 4;
  static constexpr int kEndBytes = kSquareBytes + (kBlocks - 1) * kSumBytesOfBlock;
  static constexpr int shared_bytes(int stages) { return 1024 + stages * (kStageBytes + 16) + kEndBytes + 16; }

  struct Shared {
    char* stages;
    char* squares;
    char* sums;       ///< in the first block of a cluster: those of the others
    uint64_t* full;   ///< weights and rows of a stage are there
    uint64_t* empty;  ///< every consuming warp is done with it
    uint64_t* sums_are_there;
  };

  static __device__ Shared carve(char* raw, int stages) {
    Shared shared;
    shared.stages = raw + (1024 - shared_address(raw) % 1024) % 1024;
    shared.squares = shared.stages + stages * kStageBytes;
    shared.sums = shared.squares + kSquareBytes;
    shared.full = reinterpret_cast<uint64_t*>(shared.squares + kEndBytes);
    shared.empty = shared.full + stages;
    shared.sums_are_there = shared.empty + stages;
    return shared;
  }

  using Tiles = OutputTiles<kFeatures, kTokens>;
  using Item = typename Tiles::Item;
  /// Clusters take tiles in turn.
  static __device__ int32_t first_index() { return static_cast<int32_t>(blockIdx.x) / kBlocks; }
  static __device__ int32_t index_step() { return static_cast<int32_t>(gridDim.x) / kBlocks; }

  /// Whose weight a tile meets; -1: there is nothing to do.
  static __device__ int32_t expert_of(const ProductCall& call, const Item& item) {
    return call.group.experts == nullptr ? 0 : call.group.experts[item.token / kTokens];
  }

  static __device__ int32_t in_128(const ProductCall& call) { return (call.k + kInputPad - 1) / kInputPad; }
  static __device__ int32_t stages_of_k(const ProductCall& call) { return in_128(call) * (2 / kDepth); }
  static __device__ int32_t segment_begin(const ProductCall& call, int32_t segment) {
    return in_128(call) * segment / call.splits * (2 / kDepth);
  }
  /// The stages that this block has of each tile.
  static __device__ int32_t begin_of(const ProductCall& call) {
    return kBlocks > 1 ? segment_begin(call, static_cast<int32_t>(cluster_rank())) : 0;
  }
  static __device__ int32_t end_of(const ProductCall& call) {
    return kBlocks > 1 ? segment_begin(call, static_cast<int32_t>(cluster_rank()) + 1) : stages_of_k(call);
  }

  static __device__ void produce(const ProductCall& call, const CUtensorMap* map, const Shared& shared, int ring) {
    const uint64_t once = evict_first_policy(), again = evict_last_policy();
    const int32_t items = Tiles::count(call), begin = begin_of(call), end = end_of(call);
    const int64_t tile_row = int64_t{stages_of_k(call)} * kDepth * kTileBytes;
    const bool streamed = Tiles::of_tokens(call) == 1;  // else other blocks read these weights, too
    const auto load_weights = [&](const Item& item, int32_t expert, int32_t stage_of_k, int32_t slot) {
      barrier_expect(&shared.full[slot], kStageBytes);
#pragma unroll
      for (int g = 0; g < kWarpgroups; ++g) {
        // A warpgroup beyond the last output repeats its neighbour's tile; it stores nothing.
        const int32_t tile = min(item.feature / kTile + g, call.n / kTile - 1);
        const char* const from = static_cast<const char*>(call.weight) + expert * call.expert_stride + tile * tile_row;
        copy_bulk(shared.stages + slot * kStageBytes + g * kDepth * kTileBytes,
                  from + int64_t{stage_of_k} * kDepth * kTileBytes, kDepth * kTileBytes, &shared.full[slot],
                  streamed ? once : again);
      }
    };
    const auto load_rows = [&](const Item& item, int32_t stage_of_k, int32_t slot) {
      char* const to = shared.stages + slot * kStageBytes + kWeightBytes;
#pragma unroll
      for (int t = 0; t < kDepth; ++t) {
        copy_box(to + t * kRowTileBytes, map, (stage_of_k * kDepth + t) * kTile, item.token, &shared.full[slot], again);
      }
    };
    // Most weights do not depend on the kernels before this one: the first stages of them are on their way before it
    // ends.
    const int32_t first = first_index(), step = index_step();
    const Item head = Tiles::at(call, first);
    if (call.weight_is_made || call.group.experts != nullptr) wait_for_predecessors();
    int32_t expert = first < items ? expert_of(call, head) : -1;
    const int32_t early = expert >= 0 ? min(ring, end - begin) : 0;
    for (int32_t i = 0; i < early; ++i) load_weights(head, expert, begin + i, i);
    wait_for_predecessors();
    for (int32_t i = 0; i < early; ++i) load_rows(head, begin + i, i);
    int32_t slot = early % ring, parity = early == ring ? 0 : 1, at = begin + early;
    for (int32_t index = first; index < items; index += step) {
      const Item item = Tiles::at(call, index);
      expert = expert_of(call, item);
      for (; expert >= 0 && at < end; ++at) {
        barrier_wait(&shared.empty[slot], parity);
        load_weights(item, expert, at, slot);
        load_rows(item, at, slot);
        if (++slot == ring) slot = 0, parity ^= 1;
      }
      at = begin;
    }
  }

  /// sum[i] becomes its chain of products.
  static __device__ __forceinline__ void consume(const Shared& shared, int32_t stages, int32_t group, int ring,
                                                 int32_t& slot, int32_t& parity, float (&sum)[kTokens / 2]) {
    int32_t last = -1;
    for (int32_t i = 0; i < stages; ++i) {
      barrier_wait(&shared.full[slot], parity);
      const char* const stage = shared.stages + slot * kStageBytes;
      wgmma_fence();
#pragma unroll
      for (int t = 0; t < kDepth; ++t) {
        const uint64_t a = tile_descriptor(stage + (group * kDepth + t) * kTileBytes);
        const uint64_t b = tile_descriptor(stage + kWeightBytes + t * kRowTileBytes);
#pragma unroll
        for (int k = 0; k < 4; ++k) wgmma<kTokens>(sum, a + 2 * k, b + 2 * k, i > 0 || t > 0 || k > 0);
      }
      wgmma_commit();
      // The stage before this one has been read when only the newest group is in flight.
      wgmma_wait<1>();
      if (last >= 0) release(&shared.empty[last]);
      last = slot;
      if (++slot == ring) slot = 0, parity ^= 1;
    }
    wgmma_wait<0>();
    release(&shared.empty[last]);
  }

  /// The same for a sum of several segments.
  static __device__ __forceinline__ void consume_segments(const ProductCall& call, const Shared& shared, int32_t group,
                                                          int ring, int32_t& slot, int32_t& parity,
                                                          float (&total)[kTokens / 2]) {
#pragma unroll
    for (float& value : total) value = 0;
    for (int32_t s = 0; s < call.splits; ++s) {
      float sum[kTokens / 2];
      consume(shared, segment_begin(call, s + 1) - segment_begin(call, s), group, ring, slot, parity, sum);
#pragma unroll
      for (int i = 0; i < kTokens / 2; ++i) total[i] += sum[i];
    }
  }

  /// The segments of all blocks meet in the first one, in ascending order. False: this is another block.
  static __device__ __forceinline__ bool gather(const Shared& shared, float (&sum)[kTokens / 2]) {
    constexpr int kFours = kTokens / 8;
    auto* const mine = reinterpret_cast<float4*>(shared.sums) + threadIdx.x;
    if (const uint32_t block = cluster_rank(); block > 0) {
      const uint32_t to = address_in(mine + (block - 1) * kFours * kConsumers, 0);
      const uint32_t barrier = address_in(shared.sums_are_there, 0);
#pragma unroll
      for (int i = 0; i < kFours; ++i) {
        store_async(to + i * kConsumers * 16, sum[4 * i], sum[4 * i + 1], sum[4 * i + 2], sum[4 * i + 3], barrier);
      }
      return false;
    }
    barrier_wait_cluster(shared.sums_are_there, 0);
#pragma unroll
    for (int i = 0; i < kFours; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) sum[4 * i + e] += 0.0F;
#pragma unroll
      for (int b = 0; b < kBlocks - 1; ++b) {
        const float4 more = mine[(b * kFours + i) * kConsumers];
        sum[4 * i] += more.x, sum[4 * i + 1] += more.y, sum[4 * i + 2] += more.z, sum[4 * i + 3] += more.w;
      }
    }
    return true;
  }

  static __device__ void run(const ProductCall& call, const CUtensorMap* map, char* raw, int ring) {
    const Shared shared = carve(raw, ring);
    if (threadIdx.x == kConsumers) {
      prefetch_map(map);
      for (int i = 0; i < ring; ++i) {
        barrier_init(&shared.full[i], 1);
        barrier_init(&shared.empty[i], kConsumers / 32);
      }
      if constexpr (kBlocks > 1) barrier_init(shared.sums_are_there, 1);
      barrier_init_fence();
    }
    __syncthreads();
    if constexpr (kBlocks > 1) {
      if (threadIdx.x == 0 && cluster_rank() == 0) {
        barrier_expect(shared.sums_are_there, (kBlocks - 1) * kSumBytesOfBlock);
      }
      __syncwarp();
      cluster_arrive();
    }
    let_successor_start();
    if (threadIdx.x >= kConsumers) {
      if (threadIdx.x == kConsumers) produce(call, map, shared, ring);
      return;
    }
    if constexpr (kBlocks > 1) cluster_wait();  // barriers of the first block are there
    wait_for_predecessors();                    // they may still read what this kernel overwrites
    const auto group = static_cast<int32_t>(threadIdx.x) / 128, warp = static_cast<int32_t>(threadIdx.x) / 32;
    const int32_t items = Tiles::count(call), step = index_step(), stages = end_of(call) - begin_of(call);
    int32_t slot = 0, parity = 0;
    for (int32_t index = first_index(); index < items; index += step) {
      const Item item = Tiles::at(call, index);
      if (expert_of(call, item) < 0) continue;
      float sum[kTokens / 2];
      if constexpr (kSegments) {
        consume_segments(call, shared, group, ring, slot, parity, sum);
      } else {
        consume(shared, stages, group, ring, slot, parity, sum);
      }
      if constexpr (kBlocks > 1) {
        if (!gather(shared, sum)) return;
      }
      const int32_t features = item.feature + kTile * group + 16 * (warp % 4);
      finish_tile<kTokens>(call, call.finish != Finish::kFloat, item.token, features, sum, shared.squares);
    }
  }
};

}  // namespace ashlar::cuda
