// SPDX-License-Identifier: Apache-2.0
#pragma once
// y[r] = x[r] W^T for any number of rows, with the same bits for a row whatever the number.
//
// The operands are swapped: 64 outputs of the weight are the M of wgmma, rows of x its N, so that one instruction family
// serves 1 row (N = 8) and thousands (N = 256). The law of a sum, the same in every instance of this kernel: K is cut
// into `splits` segments at multiples of 128, their number chosen from the weight's shape alone; a segment is one chain of
// k16 steps on the tensor core from zero; segments are added in fp32 in ascending order. Which block computes which
// segment, how many rows share a tile and how deep the pipeline is are free, and no bit depends on them.
//
// Packed weight: [n / 64][k / 64] tiles of 64 outputs x 64 inputs, 8 KiB each, as wgmma wants them in shared memory:
// 128 bytes a row, 16-byte piece c of row r at place c ^ (r % 8). A tile row of the weight is contiguous, so a stage of
// the pipeline is one linear copy without a tensor map. n is padded with zeros to a multiple of 64, k to one of 128.

#include "product_finish.cuh"
#include "device/cuda/hopper/wgmma.cuh"

namespace ashlar::cuda {

/// kTokens: rows of x a tile has. kWarpgroups: tiles of 64 outputs side by side, a consuming warpgroup each.
/// kDepth: tiles of 64 inputs in a stage. kCluster: the blocks of a cluster take a segment of K each.
/// kTotals: there may be several segments, and a block takes them all.
template <int kTokens, int kWarpgroups, int kDepth, int kStages, bool kCluster, bool kTotals, Finish kFinish>
struct Product {
  static constexpr int kFeatures = 64 * kWarpgroups;
  static constexpr int kWeightBytes = kWarpgroups * kDepth * kTileBytes;
  static constexpr int kRowTileBytes = kTokens * 128;
  static constexpr int kStageBytes = kWeightBytes + kDepth * kRowTileBytes;
  static constexpr int kConsumers = 128 * kWarpgroups;
  static constexpr int kThreads = kConsumers + 32;
  static constexpr int kPartialBytes = kCluster ? kConsumers * kTokens / 2 * 4 : 0;
  static constexpr bool kSquares = kTokens >= 64 && kFinish != Finish::kFloat && !kCluster;
  static constexpr int kSquareBytesOfWarp = 32 * 48;
  static constexpr int kSquareBytes = kSquares ? kConsumers / 32 * kSquareBytesOfWarp : 0;
  static constexpr int kSharedBytes = 1024 + kStages * kStageBytes + kPartialBytes + kSquareBytes + 16 * kStages;
  static_assert(kSharedBytes <= 227 * 1024);

  struct Shared {
    char* stages;
    float4* partial;
    char* squares;
    uint64_t* full;   ///< weights and rows of a stage are there
    uint64_t* empty;  ///< every consuming warp is done with it
  };

  static __device__ Shared carve(char* raw) {
    Shared shared;
    shared.stages = raw + (1024 - shared_address(raw) % 1024) % 1024;
    shared.partial = reinterpret_cast<float4*>(shared.stages + kStages * kStageBytes);
    shared.squares = reinterpret_cast<char*>(shared.partial) + kPartialBytes;
    shared.full = reinterpret_cast<uint64_t*>(shared.squares + kSquareBytes);
    shared.empty = shared.full + kStages;
    return shared;
  }

  /// A tile of the output: neighbours in time share rows of x or outputs of the weight, so that L2 serves them.
  struct Item {
    int32_t feature;
    int32_t token;
  };
  static __device__ int32_t feature_tiles(const ProductCall& call) { return (call.n + kFeatures - 1) / kFeatures; }
  static __device__ int32_t token_tiles(const ProductCall& call) { return (call.rows + kTokens - 1) / kTokens; }
  static __device__ Item item_at(const ProductCall& call, int32_t index) {
    constexpr int32_t kBand = 16;  // feature tiles that are walked together
    const int32_t tokens = token_tiles(call);
    const int32_t band = index / (kBand * tokens);
    const int32_t width = min(kBand, feature_tiles(call) - band * kBand);
    const int32_t rest = index - band * kBand * tokens;
    return {(band * kBand + rest % width) * kFeatures, rest / width * kTokens};
  }

  /// First stage of segment s.
  static __device__ int32_t boundary(const ProductCall& call, int32_t s) {
    return (call.k / 128 * s / call.splits) * (2 / kDepth);
  }

  static __device__ void produce(const ProductCall& call, const CUtensorMap* map, const Shared& shared, int32_t first,
                                 int32_t step, int32_t items, int32_t segment_begin, int32_t segment_end) {
    const uint64_t once = evict_first_policy(), again = evict_last_policy();
    const int32_t begin = boundary(call, segment_begin), end = boundary(call, segment_end);
    const int64_t tile_row = int64_t{call.k / 64} * kTileBytes;
    const int32_t padded_tiles = (call.n + 63) / 64;
    const bool streamed = token_tiles(call) == 1;  // else other blocks read these weights, too
    const auto weights_at = [&](const Item& item, int32_t stage_of_k, int g) {
      // A warpgroup beyond the last output repeats its neighbour's tile; it stores nothing.
      const int32_t tile = min(item.feature / 64 + g, padded_tiles - 1);
      return reinterpret_cast<const char*>(call.weight) + tile * tile_row + int64_t{stage_of_k} * kDepth * kTileBytes;
    };
    const auto load_weights = [&](const Item& item, int32_t stage_of_k, int32_t slot) {
      barrier_expect(&shared.full[slot], kStageBytes);
      char* to = shared.stages + slot * kStageBytes;
#pragma unroll
      for (int g = 0; g < kWarpgroups; ++g) {
        copy_bulk(to + g * kDepth * kTileBytes, weights_at(item, stage_of_k, g), kDepth * kTileBytes, &shared.full[slot],
                  streamed ? once : again);
      }
    };
    const auto load_rows = [&](const Item& item, int32_t stage_of_k, int32_t slot) {
      char* to = shared.stages + slot * kStageBytes + kWeightBytes;
#pragma unroll
      for (int t = 0; t < kDepth; ++t) {
        copy_box(to + t * kRowTileBytes, map, (stage_of_k * kDepth + t) * 64, item.token, &shared.full[slot], again);
      }
    };
    // Weights do not depend on the kernels before this one: the first stages of them are on their way before it ends.
    const Item head = item_at(call, first);
    const int32_t early = first < items ? min(kStages, end - begin) : 0;
    for (int32_t i = 0; i < early; ++i) load_weights(head, begin + i, i);
    wait_for_predecessors();
    for (int32_t i = 0; i < early; ++i) load_rows(head, begin + i, i);
    int32_t slot = early % kStages, parity = early == kStages ? 0 : 1;
    int32_t skip = early;
    for (int32_t index = first; index < items; index += step) {
      const Item item = item_at(call, index);
      for (int32_t at = begin + skip; at < end; ++at) {
        barrier_wait(&shared.empty[slot], parity);
        load_weights(item, at, slot);
        load_rows(item, at, slot);
        if (++slot == kStages) slot = 0, parity ^= 1;
      }
      skip = 0;
    }
  }

  static __device__ __forceinline__ void release(uint64_t* empty) {
    if (threadIdx.x % 32 == 0) barrier_arrive(empty);
  }

  /// One segment: sum[i] becomes its chain of products.
  static __device__ __forceinline__ void consume(const Shared& shared, int32_t stages, int32_t group, int32_t& slot,
                                                 int32_t& parity, float (&sum)[kTokens / 2]) {
    int32_t last = -1;
    for (int32_t i = 0; i < stages; ++i) {
      barrier_wait(&shared.full[slot], parity);
      const char* stage = shared.stages + slot * kStageBytes;
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
      if (++slot == kStages) slot = 0, parity ^= 1;
    }
    wgmma_wait<0>();
    release(&shared.empty[last]);
  }

  static __device__ __forceinline__ void finish(const ProductCall& call, const Shared& shared, const Item& item,
                                                int32_t group, const float (&sum)[kTokens / 2]) {
    const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
    const int32_t features = item.feature + 64 * group + 16 * warp;
    if constexpr (kSquares) {
#pragma unroll
      for (int j = 0; j < kTokens / 32; ++j) {
        finish_square<kFinish>(call, &sum[16 * j], features, item.token + 32 * j,
                               shared.squares + threadIdx.x / 32 * kSquareBytesOfWarp);
      }
    } else {
#pragma unroll
      for (int j = 0; j < kTokens / 8; ++j) {
        finish_quad<kFinish>(call, &sum[4 * j], features + lane / 4, item.token + 8 * j + 2 * (lane % 4));
      }
    }
  }

  /// Adds the segments that the blocks of the cluster hold, in order; the blocks share the work by quads.
  static __device__ __forceinline__ void combine(const ProductCall& call, const Shared& shared, const Item& item,
                                                 int32_t group, uint32_t rank, const float (&sum)[kTokens / 2]) {
#pragma unroll
    for (int j = 0; j < kTokens / 8; ++j) {
      shared.partial[j * kConsumers + threadIdx.x] = make_float4(sum[4 * j], sum[4 * j + 1], sum[4 * j + 2], sum[4 * j + 3]);
    }
    cluster_sync();
    const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
    const int32_t feature = item.feature + 64 * group + 16 * warp + lane / 4;
    for (int32_t j = static_cast<int32_t>(rank); j < kTokens / 8; j += call.splits) {
      float total[4] = {};
      for (int32_t s = 0; s < call.splits; ++s) {
        const float4 part = load_peer(&shared.partial[j * kConsumers + threadIdx.x], static_cast<uint32_t>(s));
        total[0] += part.x, total[1] += part.y, total[2] += part.z, total[3] += part.w;
      }
      finish_quad<kFinish>(call, total, feature, item.token + 8 * j + 2 * (lane % 4));
    }
    cluster_sync();  // no block may leave while another reads its shared memory
  }

  static __device__ void run(const ProductCall& call, const CUtensorMap* map, char* raw) {
    const Shared shared = carve(raw);
    const bool producer = threadIdx.x >= kConsumers;
    if (threadIdx.x == kConsumers) {
      prefetch_map(map);
      for (int i = 0; i < kStages; ++i) {
        barrier_init(&shared.full[i], 1);
        barrier_init(&shared.empty[i], kConsumers / 32);
      }
      barrier_init_fence();
    }
    __syncthreads();
    // Before its own wait: a successor may not rely on anything but its own wait, either.
    let_successor_start();
    const int32_t items = feature_tiles(call) * token_tiles(call);
    const uint32_t rank = kCluster ? cluster_rank() : 0;
    const int32_t first = static_cast<int32_t>(blockIdx.x) / (kCluster ? call.splits : 1);
    const int32_t step = kCluster ? items : static_cast<int32_t>(gridDim.x);  // a split item is a cluster's only one
    const int32_t segment_begin = kCluster ? static_cast<int32_t>(rank) : 0;
    const int32_t segment_end = kCluster ? segment_begin + 1 : call.splits;
    if (producer) {
      if (threadIdx.x == kConsumers) {
        produce(call, map, shared, first, step, items, segment_begin, segment_end);
      }
      if constexpr (kCluster) {
        __syncwarp();
        cluster_sync();
        cluster_sync();
      }
      return;
    }
    wait_for_predecessors();  // they may still read what this kernel overwrites
    const int32_t group = static_cast<int32_t>(threadIdx.x) / 128;
    int32_t slot = 0, parity = 0;
    for (int32_t index = first; index < items; index += step) {
      const Item item = item_at(call, index);
      float sum[kTokens / 2];
      if constexpr (kTotals) {
        float total[kTokens / 2] = {};
        for (int32_t s = segment_begin; s < segment_end; ++s) {
          consume(shared, boundary(call, s + 1) - boundary(call, s), group, slot, parity, sum);
#pragma unroll
          for (int i = 0; i < kTokens / 2; ++i) total[i] += sum[i];
        }
        finish(call, shared, item, group, total);
      } else {
        consume(shared, boundary(call, segment_end) - boundary(call, segment_begin), group, slot, parity, sum);
        if constexpr (kCluster) {
          combine(call, shared, item, group, rank, sum);
        } else {
          finish(call, shared, item, group, sum);
        }
      }
    }
  }
};

template <class Shape>
__global__ void __launch_bounds__(Shape::kThreads, 1) product_kernel(const __grid_constant__ CUtensorMap map, const __grid_constant__ ProductCall call) {
  extern __shared__ char raw[];
  Shape::run(call, &map, raw);
}

}  // namespace ashlar::cuda
