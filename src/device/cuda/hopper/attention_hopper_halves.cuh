// SPDX-License-Identifier: Apache-2.0
#pragma once
// attention_hopper.cuh for heads of 256, with the same bits. Answers of 64 queries and scores of a segment do not fit
// into the registers of a warpgroup. So both have the same 64 queries: each finds the weights of half a segment's keys,
// hands them to the other, and then adds up all of the segment's values in half of their dimensions. Stages are
// quarters of a segment, and values are let go as they are added up, so that the next ones are on their way meanwhile.

#include "attention_hopper.cuh"

namespace ashlar::cuda {

template <class Format>
struct HopperHalves {
  static_assert(!Format::kScaled);
  static constexpr int kDim = 256, kHalf = 128;
  using Whole = HopperAttention<kDim, Format>;
  using Keys = typename Whole::Keys;
  using Ring = typename Whole::Ring;
  using Queries = typename Whole::Queries;
  static constexpr int kCut = Whole::kCut, kCuts = Whole::kCuts;
  static constexpr int kMyCuts = kCuts / 2;
  static constexpr int kKeys = Keys::kKeys;
  static constexpr int kMyStages = Keys::kParts / 2;
  static constexpr int kEightKeys = Keys::kEightKeys;
  static constexpr int kConsumers = Whole::kConsumers, kThreads = Whole::kThreads;

  /// What the warpgroups hand each other of a segment.
  struct Meeting {
    uint4 weights[kCuts][2][128];  ///< of a thread, as the instruction takes 16 keys
    float highest[kCuts][64];
    float sums[64];  ///< of the first half's weights; in the end those of all keys
  };
  static constexpr int kSharedBytes =
      Keys::kStages * (Keys::kStageBytes + 16) + Whole::kQueryBytes + static_cast<int>(sizeof(Meeting));
  static_assert(kSharedBytes <= 227 * 1024);

  static __device__ __forceinline__ void meet() { asm volatile("bar.sync 1, 256;" ::: "memory"); }

  /// Of a thread's query of the tile: the first one, or eight further on.
  static __device__ __forceinline__ int query_of(int h) {
    const int thread = static_cast<int>(threadIdx.x) % 128;
    return thread / 32 * 16 + thread % 32 / 4 + 8 * h;
  }

  /// Scores of the keys of a stage, scaled.
  static __device__ __forceinline__ void score(const AttentionCall& call, const KeyRange& keys, const char* query_tile,
                                               const Queries& queries, int32_t at, Ring& ring, float (&s)[kKeys / 2]) {
    if (!meets(keys, at, kKeys)) {
#pragma unroll
      for (float& score : s) score = -CUDART_INF_F;
      return;
    }
    barrier_wait(&ring.full[ring.slot], ring.parity);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < kDim / 16; ++k) {
      wgmma<kKeys>(s, Whole::descriptor(query_tile + k / 4 * Whole::kQueryColumnBytes, 16, 1024) + k % 4 * 2,
                   Whole::descriptor(ring.stage() + k / 4 * 1024, 16, kEightKeys) + k % 4 * 2, k > 0);
    }
    wgmma_commit();
    wgmma_wait<0>();
    Whole::release_stage(ring);
    Whole::scale_scores(queries, call.scale, ring, at, s);
    ring.advance();
  }

  /// Past the keys that the other warpgroup has, from `first` on. They have to be there before they are let go: else
  /// this warpgroup might let go of a stage twice where the other one has yet to do so once.
  static __device__ __forceinline__ void pass(const KeyRange& keys, int32_t first, Ring& ring) {
#pragma unroll
    for (int i = 0; i < kMyStages; ++i) {
      if (!meets(keys, first + i * kKeys, kKeys)) continue;
      barrier_wait(&ring.full[ring.slot], ring.parity);
      Whole::release_stage(ring);
      ring.advance();
    }
  }

  /// Adds up the values of a segment in this warpgroup's dimensions. highest: of the segment.
  static __device__ __forceinline__ void add_values(const KeyRange& keys, const Meeting& meeting, int32_t first,
                                                    const float (&highest)[2], Ring& ring, float (&sums)[2][32]) {
    const int thread = static_cast<int>(threadIdx.x) % 128, warpgroup = static_cast<int>(threadIdx.x) / 128;
#pragma unroll
    for (int w = 0; w < kCuts; ++w) {
      constexpr int kOfStage = kKeys / kCut;
      const int32_t stage = first + w / kOfStage * kKeys;
      if (!meets(keys, stage, kKeys)) continue;
      if (w % kOfStage == 0) barrier_wait(&ring.full[ring.slot], ring.parity);
      if (meets(keys, first + w * kCut, kCut)) {
        uint32_t weights[2][4];
        float scales[2];
#pragma unroll
        for (int t = 0; t < 2; ++t) {
          const uint4 four = meeting.weights[w][t][thread];
          weights[t][0] = four.x, weights[t][1] = four.y, weights[t][2] = four.z, weights[t][3] = four.w;
        }
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const float of_cut = meeting.highest[w][query_of(h)];
          scales[h] = of_cut == -CUDART_INF_F ? 0.0F : expf(of_cut - highest[h]);
        }
        const char* const values = ring.stage() + w % kOfStage * (kCut / 8) * kEightKeys + warpgroup * 2 * 1024;
        float cut[2][32];
        wgmma_fence();
#pragma unroll
        for (int column = 0; column < 2; ++column) {
#pragma unroll
          for (int t = 0; t < 2; ++t) {
            wgmma_rows<64>(cut[column], weights[t],
                           Whole::descriptor(values + column * 1024 + 2 * t * kEightKeys, 1024, kEightKeys), t > 0);
          }
          wgmma_commit();
        }
#pragma unroll
        for (int column = 0; column < 2; ++column) {
          column == 0 ? wgmma_wait<1>() : wgmma_wait<0>();
#pragma unroll
          for (int i = 0; i < 32; ++i) {
            const float scale = scales[i / 2 % 2];
            if (scale != 0) sums[column][i] = fmaf(cut[column][i], scale, sums[column][i]);
          }
        }
      }
      if (w % kOfStage + 1 == kOfStage) {
        Whole::release_stage(ring);
        ring.advance();
      }
    }
  }

  static __device__ void consume(const AttentionCall& call, const KeyRange& keys, const char* query_tile,
                                 Meeting& meeting, Queries& queries, Ring ring, float (&answer)[kHalf / 2]) {
    const int thread = static_cast<int>(threadIdx.x) % 128, warpgroup = static_cast<int>(threadIdx.x) / 128;
#pragma unroll
    for (float& value : answer) value = 0;
    for (int32_t first = keys.begin / kSegment * kSegment; first < keys.end; first += kSegment) {
      float s[kMyStages][kKeys / 2];
      if (warpgroup == 1) pass(keys, first, ring);
#pragma unroll
      for (int i = 0; i < kMyStages; ++i) {
        score(call, keys, query_tile, queries, first + (warpgroup * kMyStages + i) * kKeys, ring, s[i]);
      }

      float highest[kMyCuts][2], sum[kMyCuts][2];
#pragma unroll
      for (int w = 0; w < kMyCuts; ++w) {
        float* const cut = &s[w / 2][w % 2 * 16];
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          float of_cut = -CUDART_INF_F;
#pragma unroll
          for (int j = 0; j < kCut / 8; ++j) of_cut = fmaxf(of_cut, fmaxf(cut[4 * j + 2 * h], cut[4 * j + 2 * h + 1]));
          highest[w][h] = quad_max(of_cut);
          const float base = highest[w][h] == -CUDART_INF_F ? 0.0F : highest[w][h];
          float of_weights = 0;
#pragma unroll
          for (int j = 0; j < kCut / 8; ++j) {
            const uint32_t pair = Format::weigh(power_of_two((cut[4 * j + 2 * h] - base) * CUDART_L2E_F),
                                                power_of_two((cut[4 * j + 2 * h + 1] - base) * CUDART_L2E_F),
                                                make_float2(1, 1), of_weights);
            cut[4 * j + 2 * h] = __uint_as_float(pair);
          }
          sum[w][h] = quad_sum(of_weights);
        }
      }
      meet();  // the other one is done with the segment before
#pragma unroll
      for (int w = 0; w < kMyCuts; ++w) {
        const int of_segment = warpgroup * kMyCuts + w;
#pragma unroll
        for (int t = 0; t < 2; ++t) {
          const float* const pairs = &s[w / 2][w % 2 * 16 + 8 * t];
          meeting.weights[of_segment][t][thread] = make_uint4(__float_as_uint(pairs[0]), __float_as_uint(pairs[2]),
                                                              __float_as_uint(pairs[4]), __float_as_uint(pairs[6]));
        }
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          if (thread % 4 == 0) meeting.highest[of_segment][query_of(h)] = highest[w][h];
        }
      }
      if (warpgroup == 0) pass(keys, first + kSegment / 2, ring);
      meet();

      // The second warpgroup goes on with the first one's sum of weights, so that it alone has that of all keys.
      Extent mine[2];
      float2 merging[2];
      if (warpgroup == 1) asm volatile("bar.sync 2, 256;" ::: "memory");
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        mine[h] = {-CUDART_INF_F, warpgroup == 1 ? meeting.sums[query_of(h)] : 0.0F};
#pragma unroll
        for (int w = 0; w < kCuts; ++w) mine[h].maximum = fmaxf(mine[h].maximum, meeting.highest[w][query_of(h)]);
#pragma unroll
        for (int w = 0; w < kMyCuts; ++w) {
          const float scale = highest[w][h] == -CUDART_INF_F ? 0.0F : expf(highest[w][h] - mine[h].maximum);
          if (scale != 0) mine[h].sum = fmaf(sum[w][h], scale, mine[h].sum);
        }
        if (warpgroup == 0 && thread % 4 == 0) meeting.sums[query_of(h)] = mine[h].sum;
        merging[h] = merge(queries.total[h], mine[h]);
      }
      if (warpgroup == 0) asm volatile("bar.arrive 2, 256;" ::: "memory");

      float sums[2][32] = {};
      const float of_segment[2] = {mine[0].maximum, mine[1].maximum};
      add_values(keys, meeting, first, of_segment, ring, sums);
#pragma unroll
      for (int i = 0; i < kHalf / 2; ++i) {
        const int h = i / 2 % 2;
        if (of_segment[h] == -CUDART_INF_F) continue;
        answer[i] = answer[i] * merging[h].x + sums[i / 32][i % 32] * merging[h].y;
      }
    }
  }

  static __device__ void run(const AttentionCall& call, int32_t window_rows, char* raw) {
    const HeadsCall& heads = call.heads;
    if (shared_address(raw) % 1024 != 0) __trap();  // there is no room to spare
    char* const query_tile = raw + Keys::kStages * Keys::kStageBytes;
    auto& meeting = *reinterpret_cast<Meeting*>(query_tile + Whole::kQueryBytes);
    auto* const barriers = reinterpret_cast<uint64_t*>(query_tile + Whole::kQueryBytes + sizeof(Meeting));
    Ring ring = {raw, barriers, barriers + Keys::kStages};
    if (threadIdx.x == 0) {
      for (int i = 0; i < Keys::kStages; ++i) {
        barrier_init(&ring.full[i], Whole::kProducers);
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
      asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Whole::kProducerRegisters));
      const KeySource source = {heads.page_tables[table],
                                heads.branches != nullptr ? heads.branches[table] : Branch{0, 0, nullptr}, kv_head};
      Keys::produce(call, source, keys, ring);
      return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Whole::kConsumerRegisters));
    const int32_t n = (last - first) * group;
    Whole::template read_queries<kConsumers>(
        call, static_cast<const __nv_bfloat16*>(heads.qkv) + first * heads.stride + int64_t{kv_head} * group * kDim,
        group, n, 0, query_tile);
    Queries queries;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int32_t row = first + query_of(h) / group;
      queries.seen[h] = query_of(h) < n ? KeyRange{call.begin[row], call.end[row]} : KeyRange{0, 0};
      queries.total[h] = {-CUDART_INF_F, 0};
    }
    float answer[kHalf / 2];
    consume(call, keys, query_tile, meeting, queries, ring, answer);

    const int warpgroup = static_cast<int>(threadIdx.x) / 128;
    __syncwarp();
    if (warpgroup == 1 && threadIdx.x % 4 == 0) {
#pragma unroll
      for (int h = 0; h < 2; ++h) meeting.sums[query_of(h)] = queries.total[h].sum;
    }
    meet();
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      // Lanes of a query are here together.
      const int32_t query = query_of(h), head = kv_head * group + query % group;
      auto* const out = static_cast<__nv_bfloat16*>(call.out) + (first + query / group) * call.out_stride +
                        int64_t{head} * kDim + warpgroup * kHalf;
      const bool is_one = query < n;
      const Extent total = {queries.total[h].maximum, meeting.sums[query]};
      HopperAttention<kHalf, Format>::write(is_one ? divisor_of(call, head, total) : 0.0F, h, answer,
                                            is_one ? out : nullptr);
    }
  }
};

}  // namespace ashlar::cuda
