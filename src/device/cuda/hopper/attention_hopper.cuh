// SPDX-License-Identifier: Apache-2.0
#pragma once
// Attention of many rows of one sequence, as of a chunk of a prompt, by Hopper's warpgroup instructions. Bits are those
// of attention_tiles.cu, whose law holds here: scores are chains of the same k16 steps, cuts of 32 keys have weights of
// their own, segments of 256 keys add up their cuts relative to the highest score of all, and are merged in ascending
// order.
//
// A block has the rows of a window and the heads that share a key/value head: two warpgroups with 64 queries each.
// Others keep a ring of stages full, a stage being the keys or the values of half a segment. Which inputs share a step
// is the law's: 0 to 3 of each eight of 32 dimensions, then 4 to 7. So queries and keys lie in shared memory with these
// next to each other, as wgmma reads them, and keys are copied 8 bytes at a time.
//
// All scores of a segment are there before its first weight, since the highest of them decides. What its cuts add up to
// is multiplied for 64 dimensions at a time, so that a thread's registers hold weights, one cut, one sum and the
// answer.

#include "attention_hopper_keys.cuh"
#include "wgmma.cuh"

namespace ashlar::cuda {

template <int kDim, class Format>
struct HopperAttention {
  static constexpr int kCut = 32;
  static constexpr int kCuts = kSegment / kCut;
  using Keys = HopperKeys<kDim, Format>;
  using Ring = typename Keys::Ring;
  static constexpr int kKeys = Keys::kKeys;
  static constexpr int kColumns = Keys::kColumns;
  static constexpr int kEightKeys = Keys::kEightKeys;
  static constexpr int kQueryColumnBytes = 64 * 128;
  static constexpr int kQueryBytes = kColumns * kQueryColumnBytes;  // of a warpgroup
  static constexpr int kConsumers = 256;
  static constexpr int kProducers = 32 * Keys::kProducerWarps;
  static constexpr int kThreads = kConsumers + kProducers;
  // Together as many as the threads have at the start.
  static constexpr int kProducerRegisters = 40;
  static constexpr int kConsumerRegisters = Format::kScaled ? 216 : 232;
  static constexpr int kSharedBytes = 1024 + Keys::kStages * (Keys::kStageBytes + 16) + 2 * kQueryBytes;

  /// An operand whose rows are 128 bytes, eight of them an atom. leading, stride: bytes between atoms.
  static __device__ __forceinline__ uint64_t descriptor(const char* at, uint32_t leading, uint32_t stride) {
    return (uint64_t{1} << 62) | (uint64_t{stride / 16} << 32) | (uint64_t{leading / 16} << 16) |
           ((shared_address(at) & 0x3FFFF) >> 4);
  }

  // --- Two consuming warpgroups.

  /// The tile's 64 queries, zeros beyond `n`, by the warpgroup or, of kReaders 256, both. rows: those of its first row
  /// and head.
  template <int kReaders = 128>
  static __device__ __forceinline__ void read_queries(const AttentionCall& call, const __nv_bfloat16* rows,
                                                      int32_t group, int32_t n, int warpgroup, char* to) {
    constexpr int kMine = 64 * kDim / 4 / kReaders;
    uint2 fours[kMine];  // on their way together
#pragma unroll
    for (int j = 0; j < kMine; ++j) {
      const int i = static_cast<int>(threadIdx.x) % kReaders + kReaders * j, query = i / (kDim / 4),
                piece = i % (kDim / 4);
      fours[j] = make_uint2(0, 0);
      if (query < n) {
        fours[j] = *reinterpret_cast<const uint2*>(rows + query / group * call.heads.stride + query % group * kDim +
                                                   piece * 4);
      }
    }
#pragma unroll
    for (int j = 0; j < kMine; ++j) {
      const int i = static_cast<int>(threadIdx.x) % kReaders + kReaders * j, query = i / (kDim / 4),
                piece = i % (kDim / 4);
      if constexpr (Format::kRotated) {
        const float2 low = unpack_bf16(fours[j].x), high = unpack_bf16(fours[j].y);
        float four[4] = {low.x, low.y, high.x, high.y};
        VectorOfFours<kDim>::rotate(four);
        fours[j] = make_uint2(pack_bf16(four[0], four[1]), pack_bf16(four[2], four[3]));
      }
      *reinterpret_cast<uint2*>(to + query / 8 * 1024 + Keys::place_of(piece, query, kQueryColumnBytes)) = fours[j];
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    if (warpgroup == 0) {
      asm volatile("bar.sync 1, %0;" ::"n"(kReaders) : "memory");
    } else {
      asm volatile("bar.sync 2, 128;" ::: "memory");
    }
  }

  /// Of two queries of a thread, lane / 4 and eight further on: what it sees, and what was found so far.
  struct Queries {
    KeyRange seen[2];
    Extent total[2];
  };

  /// Scores of half a segment, those at first + 8 j + 2 (lane % 4) + {0, 1} a thread, are scaled; what is not seen
  /// becomes minus infinity.
  static __device__ __forceinline__ void scale_scores(const Queries& queries, float scale, const Ring& ring,
                                                      int32_t first, float (&s)[kKeys / 2]) {
    const int two = static_cast<int>(threadIdx.x) % 4 * 2;
    const auto factor = [&](int i) { return Format::kScaled ? ring.scales()[two + i / 4 * 8 + i % 2].x : scale; };
    const bool all = queries.seen[0].begin <= first && queries.seen[1].begin <= first &&
                     queries.seen[0].end >= first + kKeys && queries.seen[1].end >= first + kKeys;
    if (all) {
#pragma unroll
      for (int i = 0; i < kKeys / 2; ++i) s[i] *= factor(i);
      return;
    }
    const int32_t at = first + two;
#pragma unroll
    for (int i = 0; i < kKeys / 2; ++i) {
      const int32_t p = at + i / 4 * 8 + i % 2;
      const KeyRange& seen = queries.seen[i / 2 % 2];
      s[i] = p >= seen.begin && p < seen.end ? s[i] * factor(i) : -CUDART_INF_F;
    }
  }

  static __device__ void consume(const AttentionCall& call, const KeyRange& keys, const char* query_tile,
                                 Queries& queries, Ring ring, float (&answer)[kDim / 2]) {
#pragma unroll
    for (float& value : answer) value = 0;
    for (int32_t first = keys.begin / kSegment * kSegment; first < keys.end; first += kSegment) {
      float s[2][kKeys / 2];
      const Ring of_keys = ring;
      const float2* weigh[2] = {of_keys.scales(), of_keys.scales()};  // of codes: scales of the halves' keys
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int32_t at = first + half * kKeys;
        if (!meets(keys, at, kKeys)) {
#pragma unroll
          for (float& score : s[half]) score = -CUDART_INF_F;
          continue;
        }
        barrier_wait(&ring.full[ring.slot], ring.parity);
        wgmma_fence();
#pragma unroll
        for (int k = 0; k < kDim / 16; ++k) {
          wgmma<kKeys>(s[half], descriptor(query_tile + k / 4 * kQueryColumnBytes, 16, 1024) + k % 4 * 2,
                       descriptor(ring.stage() + k / 4 * 1024, 16, kEightKeys) + k % 4 * 2, k > 0);
        }
        wgmma_commit();
        wgmma_wait<0>();
        if (!Format::kScaled) release_stage(ring);
        scale_scores(queries, call.scale, ring, at, s[half]);
        weigh[half] = ring.scales();
        ring.advance();
      }

      float scales[kCuts][2];  // the highest score of a cut, then what its part of the sums is multiplied by
      float2 merging[2];
      bool any[2];
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        Extent mine = {-CUDART_INF_F, 0};
#pragma unroll
        for (int w = 0; w < kCuts; ++w) {
          const float* const cut = &s[w / 4][w % 4 * 16];
          float highest = -CUDART_INF_F;
#pragma unroll
          for (int j = 0; j < kCut / 8; ++j)
            highest = fmaxf(highest, fmaxf(cut[4 * j + 2 * h], cut[4 * j + 2 * h + 1]));
          scales[w][h] = quad_max(highest);
          mine.maximum = fmaxf(mine.maximum, scales[w][h]);
        }
#pragma unroll
        for (int w = 0; w < kCuts; ++w) {
          float* const cut = &s[w / 4][w % 4 * 16];
          const float highest = scales[w][h], base = highest == -CUDART_INF_F ? 0.0F : highest;
          float sum = 0;
#pragma unroll
          for (int j = 0; j < kCut / 8; ++j) {
            float2 of_values = make_float2(1, 1);
            if (Format::kScaled) {
              const float2* const two = weigh[w / 4] + w % 4 * kCut + j * 8 + threadIdx.x % 4 * 2;
              of_values = make_float2(two[0].y, two[1].y);
            }
            const uint32_t pair =
                Format::weigh(power_of_two((cut[4 * j + 2 * h] - base) * CUDART_L2E_F),
                              power_of_two((cut[4 * j + 2 * h + 1] - base) * CUDART_L2E_F), of_values, sum);
            cut[4 * j + 2 * h] = __uint_as_float(pair);
          }
          sum = quad_sum(sum);
          scales[w][h] = highest == -CUDART_INF_F ? 0.0F : expf(highest - mine.maximum);
          if (scales[w][h] != 0) mine.sum = fmaf(sum, scales[w][h], mine.sum);
        }
        any[h] = mine.maximum != -CUDART_INF_F;
        merging[h] = merge(queries.total[h], mine);
      }

      if (Format::kScaled) {
        for (Ring done = of_keys; done.slot != ring.slot; done.advance()) release_stage(done);
      }

      const Ring of_values = ring;
#pragma unroll
      for (int column = 0; column < kColumns; ++column) {
        float sums[32] = {};
        ring = of_values;
#pragma unroll
        for (int w = 0; w < kCuts; ++w) {
          if (!meets(keys, first + w * kCut, kCut)) continue;
          // The other half's values are the next stage, if the first half has any.
          if (w == 4 && meets(keys, first, kKeys)) ring.advance();
          if (column == 0) barrier_wait(&ring.full[ring.slot], ring.parity);
          const char* const values = ring.stage() + w % 4 * (kCut / 8) * kEightKeys + column * 1024;
          float cut[32];
          wgmma_fence();
#pragma unroll
          for (int t = 0; t < kCut / 16; ++t) {
            const float* const pairs = &s[w / 4][w % 4 * 16 + 8 * t];
            const uint32_t weights[4] = {__float_as_uint(pairs[0]), __float_as_uint(pairs[2]),
                                         __float_as_uint(pairs[4]), __float_as_uint(pairs[6])};
            wgmma_rows<64>(cut, weights, descriptor(values + 2 * t * kEightKeys, 1024, kEightKeys), t > 0);
          }
          wgmma_commit();
          wgmma_wait<0>();
#pragma unroll
          for (int i = 0; i < 32; ++i) {
            const float scale = scales[w][i / 2 % 2];
            if (scale != 0) sums[i] = fmaf(cut[i], scale, sums[i]);
          }
        }
#pragma unroll
        for (int i = 0; i < 32; ++i) {
          const int h = i / 2 % 2;
          float& to = answer[column * 32 + i];
          if (any[h]) to = to * merging[h].x + sums[i] * merging[h].y;
        }
      }
      ring.advance();
      for (Ring done = of_values; done.slot != ring.slot; done.advance()) release_stage(done);
    }
  }

  static __device__ __forceinline__ void release_stage(const Ring& ring) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) barrier_arrive(&ring.empty[ring.slot]);
  }

  /// out: null where there is no such query.
  static __device__ __forceinline__ void write(float divisor, int h, const float (&answer)[kDim / 2],
                                               __nv_bfloat16* out) {
    float mine[kDim / 4];
#pragma unroll
    for (int i = 0; i < kDim / 4; ++i) {
      mine[i] = divisor > 0 ? answer[i / 2 * 4 + 2 * h + i % 2] / divisor : 0.0F;
    }
    if constexpr (Format::kRotated) VectorOfPairs<kDim>::rotate_back(mine);
    if (out == nullptr) return;
#pragma unroll
    for (int j = 0; j < kDim / 8; ++j) {
      *reinterpret_cast<uint32_t*>(out + 8 * j + threadIdx.x % 4 * 2) = pack_bf16(mine[2 * j], mine[2 * j + 1]);
    }
  }

  /// window_rows: rows of a window, half of them of a warpgroup.
  static __device__ void run(const AttentionCall& call, int32_t window_rows, char* raw) {
    const HeadsCall& heads = call.heads;
    char* const stages = raw + (1024 - shared_address(raw) % 1024) % 1024;
    char* const query_tiles = stages + Keys::kStages * Keys::kStageBytes;
    auto* const barriers = reinterpret_cast<uint64_t*>(query_tiles + 2 * kQueryBytes);
    Ring ring = {stages, barriers, barriers + Keys::kStages};
    if (threadIdx.x == 0) {
      for (int i = 0; i < Keys::kStages; ++i) {
        barrier_init(&ring.full[i], kProducers);
        barrier_init(&ring.empty[i], kConsumers / 32);
      }
      barrier_init_fence();
    }
    __syncthreads();
    begin_kernel();
    // Later windows see more keys: they go first.
    const auto window = static_cast<int32_t>(gridDim.y - 1 - blockIdx.y), kv_head = static_cast<int32_t>(blockIdx.x);
    const int32_t first = window * window_rows, last = min(first + window_rows, heads.rows);
    KeyRange keys;
    if (!is_wide(call, first, last, window_rows, keys)) return;

    const int32_t group = heads.q_heads / heads.n_kv_heads, table = heads.tables[first];
    if (threadIdx.x >= kConsumers) {
      asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kProducerRegisters));
      const KeySource source = {heads.page_tables[table],
                                heads.branches != nullptr ? heads.branches[table] : Branch{0, 0, nullptr}, kv_head};
      Keys::produce(call, source, keys, ring);
      return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kConsumerRegisters));
    const int warpgroup = static_cast<int>(threadIdx.x) / 128;
    const int32_t own = first + warpgroup * (window_rows / 2);
    const int32_t n = max(min(last - own, window_rows / 2), 0) * group;
    char* const query_tile = query_tiles + warpgroup * kQueryBytes;
    read_queries(call,
                 static_cast<const __nv_bfloat16*>(heads.qkv) + own * heads.stride + int64_t{kv_head} * group * kDim,
                 group, n, warpgroup, query_tile);
    Queries queries;
    int32_t query[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      query[h] = static_cast<int32_t>(threadIdx.x) % 128 / 32 * 16 + static_cast<int32_t>(threadIdx.x) % 32 / 4 + 8 * h;
      const int32_t row = own + query[h] / group;
      queries.seen[h] = query[h] < n ? KeyRange{call.begin[row], call.end[row]} : KeyRange{0, 0};
      queries.total[h] = {-CUDART_INF_F, 0};
    }
    float answer[kDim / 2];
    consume(call, keys, query_tile, queries, ring, answer);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      // Lanes of a query are here together.
      const int32_t head = kv_head * group + query[h] % group;
      auto* const out =
          static_cast<__nv_bfloat16*>(call.out) + (own + query[h] / group) * call.out_stride + int64_t{head} * kDim;
      const bool is_one = query[h] < n;
      write(is_one ? divisor_of(call, head, queries.total[h]) : 0.0F, h, answer, is_one ? out : nullptr);
    }
  }
};

}  // namespace ashlar::cuda
