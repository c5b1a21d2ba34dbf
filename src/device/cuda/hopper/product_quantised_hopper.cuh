// SPDX-License-Identifier: Apache-2.0
#pragma once
// Products with weights of 4 and 8 bits by Hopper's warpgroup instructions, whose first operand may lie in registers:
// there a lane makes the bf16 values of quantised_layout.h out of its integers. Bits are those of product_quantised.cu.
//
// A block has kPipes pipes, a cluster kBlocks blocks that work on one tile. A pipe is a warp that keeps a ring of
// stages full and kGroups warpgroups of 64 outputs that consume them. Of few rows the segments of a sum are shared
// among pipes, since making values takes a multiprocessor as long as memory takes to bring them; of many rows a pipe
// has them one after the other.

#include "../kernels/quantised.cuh"
#include "finish.cuh"
#include "hopper.cuh"
#include "tiles.cuh"
#include "wgmma.cuh"

namespace ashlar::cuda {

/// kTokens: rows of x in a tile. kBlocks * kPipes: 1, or the segments of a sum. kTotals: a pipe may have several
/// segments.
template <Packed kFormat, int kTokens, int kBlocks, int kPipes, int kGroups, bool kTotals>
struct HopperQuantised {
  static constexpr int kFeatures = kTile * kGroups;
  static constexpr int kAllPipes = kBlocks * kPipes;
  static constexpr int kClusterBlocks = kBlocks;
  /// Tiles of 64 inputs in a stage: one where sums would leave room for two stages.
  static constexpr int kDepth = kBlocks > 1 && kTokens >= 32 && kFormat != Packed::kInt4 ? 1 : 2;
  /// Of few rows registers are left for all numbers of a stage, which are read at once, and for the values of 64 inputs
  /// and of the 64 that are multiplied meanwhile.
  static constexpr bool kReadsAhead = kTokens <= 16;
  static constexpr int kTogether = kReadsAhead ? 2 : 1;  ///< groups of 32 inputs between two waits
  static constexpr int kTileBytes = kUnitsOfTile * unit_bytes(kFormat);
  static constexpr int kPartBytes = kDepth * kTileBytes;  // 64 outputs of a stage
  static constexpr int kWeightBytes = kGroups * kPartBytes;
  static constexpr int kRowTileBytes = kTokens * 128;
  static constexpr int kRowBytes = kDepth * kRowTileBytes;
  static constexpr int kStageBytes = kWeightBytes + kRowBytes;
  static constexpr int kConsumers = 128 * kGroups * kPipes;
  static constexpr int kThreads = kConsumers + 32 * kPipes;
  /// What registers must be enough for: warps are dealt out to four register files.
  static constexpr int kMaxThreads = (kThreads + 127) / 128 * 128;
  static constexpr bool kSquares = kTokens >= kSquareTokens;
  static constexpr int kSumBytesOfPipe = kTokens * kTile * 4;
  static constexpr int kSumBytes = (kAllPipes - 1) * kSumBytesOfPipe;
  static constexpr int kSquareBytes = kSquares ? kConsumers / 32 * kSquareBytesOfWarp : 0;
  /// A pipe with a chain and a segment in registers has none left for a sum of segments.
  static constexpr bool kTotalsWait = kTotals && scales_sums(kFormat);
  static constexpr int kTotalBytes = kTotalsWait ? kConsumers * kTokens / 2 * 4 : 0;
  static constexpr int kEndBytes = (kSquares ? kSquareBytes : kSumBytes) + kTotalBytes;
  static constexpr int shared_bytes(int stages) { return 1024 + kPipes * stages * (kStageBytes + 16) + kEndBytes + 16; }
  static_assert((kAllPipes == 1 || kGroups == 1) && (kBlocks == 1 || kPipes > 1));

  /// A pipe's part.
  struct Ring {
    char* rows;
    char* weights;
    uint64_t* full;   ///< weights and rows of a stage are there
    uint64_t* empty;  ///< every consuming warp is done with it
  };
  struct Shared {
    Ring ring;
    char* end;
    uint64_t* sums_are_there;  ///< in the first block of a cluster: those of the other blocks
    uint64_t* sums_were_read;  ///< in the other blocks: theirs
  };

  static __device__ Shared carve(char* raw, int stages, int pipe) {
    char* const rows = raw + (1024 - shared_address(raw) % 1024) % 1024;
    char* const weights = rows + kPipes * stages * kRowBytes;
    char* const end = weights + kPipes * stages * kWeightBytes;
    auto* const barriers = reinterpret_cast<uint64_t*>(end + kEndBytes);
    auto* const own = barriers + 2 + pipe * 2 * stages;
    return {{rows + pipe * stages * kRowBytes, weights + pipe * stages * kWeightBytes, own, own + stages},
            end,
            barriers,
            barriers + 1};
  }

  using Tiles = OutputTiles<kFeatures, kTokens>;
  using Item = typename Tiles::Item;
  /// Clusters take tiles in turn.
  static __device__ int32_t first_index() { return static_cast<int32_t>(blockIdx.x) / kBlocks; }
  static __device__ int32_t index_step() { return static_cast<int32_t>(gridDim.x) / kBlocks; }

  static __device__ int32_t in_128(const ProductCall& call) { return (call.k + kInputPad - 1) / kInputPad; }
  static __device__ int32_t stages_of_k(const ProductCall& call) { return in_128(call) * (2 / kDepth); }
  static __device__ int32_t segment_begin(const ProductCall& call, int32_t segment) {
    return in_128(call) * segment / call.splits * (2 / kDepth);
  }

  static __device__ void produce(const ProductCall& call, const CUtensorMap* map, const Ring& ring, int stages,
                                 int pipe) {
    const uint64_t once = evict_first_policy(), again = evict_last_policy();
    const int32_t items = Tiles::count(call);
    const int32_t begin = kAllPipes > 1 ? segment_begin(call, pipe) : 0;
    const int32_t end = kAllPipes > 1 ? segment_begin(call, pipe + 1) : stages_of_k(call);
    const int64_t part_row = int64_t{stages_of_k(call)} * kPartBytes;
    const int32_t last_part = (call.n - 1) / kTile;
    const bool streamed = Tiles::of_tokens(call) == 1;  // else other blocks read these weights, too
    const auto load_weights = [&](const Item& item, int32_t stage, int32_t slot) {
      barrier_expect(&ring.full[slot], kStageBytes);
#pragma unroll
      for (int g = 0; g < kGroups; ++g) {
        // A warpgroup beyond the last output repeats its neighbour's tile; it stores nothing.
        const int32_t part = min(item.feature / kTile + g, last_part);
        copy_bulk(ring.weights + slot * kWeightBytes + g * kPartBytes,
                  static_cast<const char*>(call.weight) + part * part_row + int64_t{stage} * kPartBytes, kPartBytes,
                  &ring.full[slot], streamed ? once : again);
      }
    };
    const auto load_rows = [&](const Item& item, int32_t stage, int32_t slot) {
#pragma unroll
      for (int t = 0; t < kDepth; ++t) {
        copy_box(ring.rows + slot * kRowBytes + t * kRowTileBytes, map, (kDepth * stage + t) * kTile, item.token,
                 &ring.full[slot], again);
      }
    };
    // Weights do not depend on the kernels before this one: their first stages are on their way before it ends.
    const int32_t first = first_index(), step = index_step();
    const Item head = Tiles::at(call, first);
    const int32_t early = min(stages, end - begin);
    for (int32_t i = 0; i < early; ++i) load_weights(head, begin + i, i);
    wait_for_predecessors();
    for (int32_t i = 0; i < early; ++i) load_rows(head, begin + i, i);
    int32_t slot = early % stages, parity = early == stages ? 0 : 1, at = begin + early;
    for (int32_t index = first; index < items; index += step) {
      const Item item = Tiles::at(call, index);
      for (; at < end; ++at) {
        barrier_wait(&ring.empty[slot], parity);
        load_weights(item, at, slot);
        load_rows(item, at, slot);
        if (++slot == stages) slot = 0, parity ^= 1;
      }
      at = begin;
    }
  }

  /// sum becomes a segment of n stages. The values of 32 inputs are made while those before them are multiplied. With
  /// scales for sums those of 128 inputs are a chain of their own, and added while the first values of the next are
  /// made.
  static __device__ __forceinline__ void consume(const Ring& ring, int32_t n, int32_t group, int stages, int32_t& slot,
                                                 int32_t& parity, float (&sum)[kTokens / 2]) {
    constexpr bool kScaled = scales_sums(kFormat);
    const int lane = static_cast<int>(threadIdx.x) % 32, unit = static_cast<int>(threadIdx.x) / 32 % 4;
    const uint64_t rows = tile_descriptor(ring.rows);  // of the first slot
    int32_t last = -1;
    [[maybe_unused]] SumScales sum_scales;
    [[maybe_unused]] float part[kScaled ? kTokens / 2 : 1];
    float(&chain)[kTokens / 2] = chain_of(sum, part);
    if constexpr (kScaled) {
#pragma unroll
      for (float& value : sum) value = 0;
    }
    for (int32_t i = 0; i < n; ++i) {
      barrier_wait(&ring.full[slot], parity);
      const char* const units = ring.weights + slot * kWeightBytes + group * kPartBytes + unit * unit_bytes(kFormat);
      [[maybe_unused]] uint4 early[kReadsAhead ? 2 * kDepth : 1];
      if constexpr (kReadsAhead) {
#pragma unroll
        for (int g = 0; g < 2 * kDepth; ++g) early[g] = read_wholes<kFormat>(units + g / 2 * kTileBytes, lane, g % 2);
      }
#pragma unroll
      for (int t = 0; t < kDepth; ++t) {
        const char* const from = units + t * kTileBytes;
        const uint64_t b = rows + static_cast<uint32_t>((slot * kRowBytes + t * kRowTileBytes) / 16);
        const int tile = kDepth == 2 ? t : i % 2;  // of 128 inputs
#pragma unroll
        for (int first = 0; first < 2; first += kTogether) {
          uint32_t a[2 * kTogether][4];
#pragma unroll
          for (int more = 0; more < kTogether; ++more) {
            const int g = first + more;
            GroupScales<kFormat> scales;
            scales.read(from + unit_wholes_bytes(kFormat), lane, g);
            const uint4 wholes = kReadsAhead ? early[2 * t + g] : read_wholes<kFormat>(from, lane, g);
            decode_step(scales, wholes, g, 0, a[2 * more]);
            decode_step(scales, wholes, g, 1, a[2 * more + 1]);
          }
          bool goes_on = i > 0 || t > 0 || first > 0;
          if constexpr (kScaled) {
            if (first == 0 && tile == 0 && i > 0) {
              wgmma_wait<0>();
              sum_scales.add(chain, sum);
            }
            if (first == 0) sum_scales.read<kFormat>(from, lane, tile);
            goes_on = tile > 0 || first > 0;
          }
          wgmma_fence();
#pragma unroll
          for (int step = 0; step < 2 * kTogether; ++step) {
            wgmma_values<kTokens>(chain, a[step], b + 4 * first + 2 * step, step > 0 ? 1 : goes_on);
          }
          wgmma_commit();
          wgmma_wait<1>();
          if (t == 0 && first == 0 && last >= 0) release(&ring.empty[last]);
        }
      }
      last = slot;
      if (++slot == stages) slot = 0, parity ^= 1;
    }
    wgmma_wait<0>();
    if constexpr (kScaled) sum_scales.add(chain, sum);
    release(&ring.empty[last]);
  }

  /// What a chain of multiplications is summed in: `part`, where there is one.
  template <int kPart>
  static __device__ __forceinline__ float (&chain_of(float (&sum)[kTokens / 2], float (&part)[kPart]))[kTokens / 2] {
    if constexpr (scales_sums(kFormat)) {
      return part;
    } else {
      return sum;
    }
  }

  /// total becomes the sum of all segments, which waits in `end` between them where it must.
  static __device__ __forceinline__ void consume_segments(const ProductCall& call, const Ring& ring, int32_t group,
                                                          int stages, int32_t& slot, int32_t& parity, char* end,
                                                          float (&total)[kTokens / 2]) {
    const auto stages_of = [&](int32_t s) { return segment_begin(call, s + 1) - segment_begin(call, s); };
    if constexpr (kTotalsWait) {
      auto* const waiting = reinterpret_cast<float4*>(end + kSquareBytes) + threadIdx.x;
      for (int32_t s = 0; s < call.splits; ++s) {
        consume(ring, stages_of(s), group, stages, slot, parity, total);
#pragma unroll
        for (int i = 0; i < kTokens / 8; ++i) {
          float4 sum = s > 0 ? waiting[i * kConsumers] : float4{0, 0, 0, 0};
          sum.x += total[4 * i], sum.y += total[4 * i + 1], sum.z += total[4 * i + 2], sum.w += total[4 * i + 3];
          if (s + 1 < call.splits) waiting[i * kConsumers] = sum;
          total[4 * i] = sum.x, total[4 * i + 1] = sum.y, total[4 * i + 2] = sum.z, total[4 * i + 3] = sum.w;
        }
      }
    } else {
#pragma unroll
      for (float& value : total) value = 0;
      for (int32_t s = 0; s < call.splits; ++s) {
        float sum[kTokens / 2];
        consume(ring, stages_of(s), group, stages, slot, parity, sum);
#pragma unroll
        for (int i = 0; i < kTokens / 2; ++i) total[i] += sum[i];
      }
    }
  }

  enum Meeting : int { kSumsAreThere = 1, kSumsWereRead = 2 };  // named barriers
  static __device__ __forceinline__ void meet(Meeting barrier) {
    asm volatile("bar.sync %0, %1;" ::"r"(static_cast<int>(barrier)), "n"(kConsumers) : "memory");
  }
  static __device__ __forceinline__ void announce(Meeting barrier) {
    asm volatile("bar.arrive %0, %1;" ::"r"(static_cast<int>(barrier)), "n"(kConsumers) : "memory");
  }

  /// The segments of all pipes meet in the first pipe, in ascending order. turn: of the cluster's tiles. False: this is
  /// another pipe.
  static __device__ __forceinline__ bool gather(const Shared& shared, int pipe, int32_t turn, bool is_last,
                                                float (&sum)[kTokens / 2]) {
    constexpr int kFours = kTokens / 8;
    auto* const mine = reinterpret_cast<float4*>(shared.end) + threadIdx.x % 128;
    if (pipe >= kPipes) {
      const uint32_t to = address_in(mine + (pipe - 1) * kFours * 128, 0),
                     barrier = address_in(shared.sums_are_there, 0);
      if (turn > 0) barrier_wait_cluster(shared.sums_were_read, (turn - 1) % 2);
#pragma unroll
      for (int i = 0; i < kFours; ++i) {
        store_async(to + i * 128 * 16, sum[4 * i], sum[4 * i + 1], sum[4 * i + 2], sum[4 * i + 3], barrier);
      }
      return false;
    }
    if (pipe > 0) {
      if (turn > 0) meet(kSumsWereRead);
#pragma unroll
      for (int i = 0; i < kFours; ++i) {
        mine[((pipe - 1) * kFours + i) * 128] = {sum[4 * i], sum[4 * i + 1], sum[4 * i + 2], sum[4 * i + 3]};
      }
      announce(kSumsAreThere);
      return false;
    }
    if constexpr (kBlocks > 1) barrier_wait_cluster(shared.sums_are_there, turn % 2);
    meet(kSumsAreThere);
#pragma unroll
    for (int i = 0; i < kFours; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) sum[4 * i + e] += 0.0F;
#pragma unroll
      for (int p = 0; p < kAllPipes - 1; ++p) {
        const float4 more = mine[(p * kFours + i) * 128];
        sum[4 * i] += more.x, sum[4 * i + 1] += more.y, sum[4 * i + 2] += more.z, sum[4 * i + 3] += more.w;
      }
    }
    if (is_last) return true;
    if constexpr (kBlocks > 1) {
      if (threadIdx.x == 0) expect_sums(shared);
    }
    announce(kSumsWereRead);
    if constexpr (kBlocks > 1) {
      // Each warp of this pipe has read its part; the barrier counts the four.
      __syncwarp();
      if (threadIdx.x % 32 == 0) {
        for (int block = 1; block < kBlocks; ++block) barrier_arrive_at(address_in(shared.sums_were_read, block));
      }
    }
    return true;
  }

  /// For the sums of a tile that other blocks send.
  static __device__ void expect_sums(const Shared& shared) {
    barrier_expect(shared.sums_are_there, (kBlocks - 1) * kPipes * kSumBytesOfPipe);
  }

  static __device__ __forceinline__ void add_bias(const ProductCall& call, int32_t features,
                                                  float (&sum)[kTokens / 2]) {
    const int32_t output = features + static_cast<int32_t>(threadIdx.x) % 32 / 4;
    const float low = output < call.n ? call.bias[output] : 0, high = output + 8 < call.n ? call.bias[output + 8] : 0;
#pragma unroll
    for (int i = 0; i < kTokens / 2; ++i) sum[i] += i % 4 < 2 ? low : high;
  }

  /// squares: rows of `out` may be written 16 bytes at a time.
  static __device__ void run(const ProductCall& call, const CUtensorMap* map, char* raw, int stages, bool squares) {
    const auto thread = static_cast<int>(threadIdx.x);
    // Warps know that they are of one pipe: addresses of its ring are then computed once for all lanes.
    const int local = of_warp(thread < kConsumers ? thread / (128 * kGroups) : (thread - kConsumers) / 32);
    const int pipe = kBlocks > 1 ? static_cast<int>(cluster_rank()) * kPipes + local : local;
    const Shared shared = carve(raw, stages, local);
    if (thread >= kConsumers && thread % 32 == 0) {
      if (local == 0) prefetch_map(map);
      for (int i = 0; i < stages; ++i) {
        barrier_init(&shared.ring.full[i], 1);
        barrier_init(&shared.ring.empty[i], 4 * kGroups);
      }
      if (kBlocks > 1 && local == 0) {
        barrier_init(shared.sums_are_there, 1);
        barrier_init(shared.sums_were_read, 4);
      }
      barrier_init_fence();
    }
    __syncthreads();
    if constexpr (kBlocks > 1) {
      if (thread == 0 && pipe == 0) expect_sums(shared);
      __syncwarp();
      cluster_arrive();
    }
    let_successor_start();
    if (thread >= kConsumers) {
      if (thread % 32 == 0) produce(call, map, shared.ring, stages, pipe);
      return;
    }
    if constexpr (kBlocks > 1) cluster_wait();  // barriers of the other block are there
    wait_for_predecessors();                    // they may still read what this kernel overwrites
    const int group = thread / 128 % kGroups, warp = thread / 32;
    const int32_t items = Tiles::count(call), step = index_step();
    const int32_t own = kAllPipes > 1 ? segment_begin(call, pipe + 1) - segment_begin(call, pipe) : stages_of_k(call);
    int32_t slot = 0, parity = 0, turn = 0;
    for (int32_t index = first_index(); index < items; index += step, ++turn) {
      const Item item = Tiles::at(call, index);
      float sum[kTokens / 2];
      if constexpr (kTotals) {
        consume_segments(call, shared.ring, group, stages, slot, parity, shared.end, sum);
      } else {
        consume(shared.ring, own, group, stages, slot, parity, sum);
      }
      if constexpr (kAllPipes > 1) {
        if (!gather(shared, pipe, turn, index + step >= items, sum)) continue;
      }
      const int32_t features = item.feature + kTile * group + 16 * (warp % 4);
      if (call.bias != nullptr) add_bias(call, features, sum);
      finish_tile<kTokens>(call, squares, item.token, features, sum, shared.end);
    }
  }
};

}  // namespace ashlar::cuda
