// SPDX-License-Identifier: Apache-2.0
#pragma once
// Attention by wgmma, for blocks of rows and chunks of prompts: tiles of 64 rows x heads, the law of attention.cuh.

#include "attention.cuh"
#include "device/cuda/hopper/wgmma.cuh"

namespace ashlar::cuda {

/// kGroups: consuming warpgroups, 64 rows x heads each. kWhole: a block of threads takes all splits of its rows.
template <int kHeadDim, int kGroups, bool kWhole>
struct Attention {
  static constexpr int kBlocks = kHeadDim / 64;  // columns of 128 bytes
  static constexpr int kPageBytes = kPageTokens * kHeadDim * 2;  // K or V of a head
  static constexpr int kStageBytes = kUnit * kHeadDim * 2;
  static constexpr int kQueryRows = 64 * kGroups;
  static constexpr int kQueryBytes = kQueryRows * kHeadDim * 2;
  static constexpr int kConsumers = 128 * kGroups;
  static constexpr int kThreads = kConsumers + 128;
  static constexpr int kStages = (208 * 1024 - 2 * kQueryBytes) / kStageBytes;
  static constexpr int kEightTokens = kBlocks * 1024;  // bytes

  /// What the producer found out about a piece of work.
  struct Work {
    int32_t first_row, rows, head, split_begin, split_end, low, high;  // keys of any row: [low, high)
    int32_t done;                                                      // no more work
    int32_t begin[kQueryRows], end[kQueryRows];                        // by token
  };
  struct Tail {
    Work works[2];
    uint64_t work_full[2], work_empty[2], full[kStages], empty[kStages];
  };
  static constexpr int kSharedBytes = 1024 + kStages * kStageBytes + 2 * kQueryBytes + sizeof(Tail);
  static_assert(kSharedBytes <= 227 * 1024);

  static __device__ uint64_t descriptor(const char* at, uint32_t leading, uint32_t stride) {
    return (uint64_t{1} << 62) | (uint64_t{stride / 16} << 32) | (uint64_t{leading / 16} << 16) |
           ((shared_address(at) & 0x3FFFF) >> 4);
  }
  /// Units of a split that some row of the piece of work sees: [first, last).
  static __device__ int32_t first_unit(int32_t low, int32_t split) { return max(low - split * kSplit, 0) / kUnit; }
  static __device__ int32_t last_unit(int32_t high, int32_t split) {
    return (min(high - split * kSplit, kSplit) + kUnit - 1) / kUnit;
  }

  // --- Producer: one warp.

  static __device__ void produce(const AttentionCall& call, const CUtensorMap* queries, char* stages, char* query_tiles,
                                 Tail& tail) {
    const int lane = threadIdx.x % 32;
    const uint64_t again = evict_last_policy(), once = evict_first_policy();
    const int32_t splits = kWhole ? 1 : call.max_splits;
    const int32_t works = call.n_blocks * call.n_kv_heads * splits;
    int32_t slot = 0, parity = 1, work_slot = 0, work_parity = 1;
    // Later blocks see more keys: they go first, so that the end is even.
    const auto block_at = [&](int32_t index) {
      return call.blocks[call.n_blocks - 1 - min(index, works - 1) / splits / call.n_kv_heads];
    };
    RowBlock next = block_at(blockIdx.x);
    for (int32_t index = blockIdx.x; index < works; index += gridDim.x) {
      const RowBlock block = next;
      next = block_at(index + gridDim.x);
      const int32_t head = index / splits % call.n_kv_heads;
      int32_t first = block.low / kSplit, last = (block.high + kSplit - 1) / kSplit;
      if (!kWhole) {
        const int32_t split = index % splits;
        if (split < first || split >= last) continue;
        first = split, last = split + 1;
      }
      // A lane knows one of 32 pages, those of two splits.
      const int32_t* table = call.page_tables + int64_t{block.table} * call.max_pages;
      const auto page_at = [&](int32_t split) {
        const int32_t position = split * kSplit + lane * kPageTokens;
        return position < block.high && position + kPageTokens > block.low ? table[position / kPageTokens] : -1;
      };
      int32_t page = page_at(first);
      int32_t begins[kQueryRows / 32], ends[kQueryRows / 32];
#pragma unroll
      for (int i = 0; i < kQueryRows / 32; ++i) {
        const int32_t row = i * 32 + lane;
        begins[i] = row < block.count ? call.begin[block.first + row] : 0;
        ends[i] = row < block.count ? call.end[block.first + row] : 0;
      }
      barrier_wait(&tail.work_empty[work_slot], work_parity);
      Work& work = tail.works[work_slot];
#pragma unroll
      for (int i = 0; i < kQueryRows / 32; ++i) work.begin[i * 32 + lane] = begins[i], work.end[i * 32 + lane] = ends[i];
      if (lane == 0) {
        work.first_row = block.first, work.rows = block.count, work.head = head;
        work.split_begin = first, work.split_end = last, work.low = block.low, work.high = block.high, work.done = 0;
      }
      if (lane != 0) {
        barrier_arrive(&tail.work_full[work_slot]);
      } else {
        const int32_t tokens = kQueryRows / call.group;
        barrier_expect(&tail.work_full[work_slot], kBlocks * 128 * tokens * call.group);
        for (int c = 0; c < kBlocks; ++c) {
          copy_queries(query_tiles + work_slot * kQueryBytes + c * kQueryRows * 128, queries, c * 64, head * call.group,
                       block.first, &tail.work_full[work_slot], once);
        }
      }
      for (int32_t split = first; split < last; split += 2) {
        const int32_t pages = page;
        if (split + 2 < last) page = page_at(split + 2);
        const uint32_t seen = __ballot_sync(~0u, pages >= 0);
        const char* from = call.kv + pages * call.page_stride + int64_t{head} * 2 * kPageBytes;
        for (int32_t u = first_unit(block.low, split); u < 4; ++u) {
          if (u / 2 + split >= last || split * kSplit + u * kUnit >= block.high) break;
          for (int half = 0; half < 2; ++half) {  // K, then V
            barrier_wait(&tail.empty[slot], parity);
            if (lane == 0) {
              barrier_expect(&tail.full[slot], __popc(seen >> (8 * u) & 255) * kPageBytes);
            }
            __syncwarp();
            if (pages >= 0 && lane / kUnitPages == u) {
              copy_bulk(stages + slot * kStageBytes + lane % kUnitPages * kPageBytes, from + half * kPageBytes, kPageBytes,
                        &tail.full[slot], kWhole ? again : once);
            }
            if (++slot == kStages) slot = 0, parity ^= 1;
          }
        }
      }
      work_slot ^= 1;
      if (work_slot == 0) work_parity ^= 1;
    }
    barrier_wait(&tail.work_empty[work_slot], work_parity);
    if (lane == 0) tail.works[work_slot].done = 1;
    barrier_arrive(&tail.work_full[work_slot]);
  }

  /// [tokens, group, 64] of the queries, whose tensor is [rows, n_heads, head_dim].
  static __device__ void copy_queries(char* to, const CUtensorMap* map, int32_t column, int32_t head, int32_t row,
                                      uint64_t* barrier, uint64_t policy) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%3, "
        "%4, %5}], [%2], %6;" ::"r"(shared_address(to)),
        "l"(map), "r"(shared_address(barrier)), "r"(column), "r"(head), "r"(row), "l"(policy)
        : "memory");
  }

  // --- Consumers.

  /// Rows of V that no row of the unit may see hold anything at all, and zero times infinity is no zero.
  static __device__ void clear_unseen(const Work& work, int32_t first, char* stage, int group) {
    for (int32_t i = static_cast<int32_t>(threadIdx.x) % 128; i < kUnit * kHeadDim / 8; i += 128) {
      const int32_t token = i / (kHeadDim / 8), piece = i % (kHeadDim / 8);
      if (first + token >= work.low && first + token < work.high) continue;
      *reinterpret_cast<uint4*>(stage + token / 8 * kEightTokens + piece / 8 * 1024 + token % 8 * 128 + piece % 8 * 16) =
          uint4{};
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    sync_threads(1 + group, 128);
  }

  /// Scores of a unit become weights under the new maximum, and what was summed before is scaled to it. A thread's keys
  /// are at + 8 j + {0, 1}, wherever its rows stand. `sum` is the thread's own part.
  static __device__ __forceinline__ void weigh(float scale, int32_t at, int32_t first, const int32_t (&begin)[2],
                                               const int32_t (&end)[2], float (&scores)[kUnit / 2], float (&maximum)[2],
                                               float (&sum)[2], float (&values)[kHeadDim / 2]) {
    const bool all_seen = begin[0] <= first && begin[1] <= first && end[0] >= first + kUnit && end[1] >= first + kUnit;
    if (!all_seen) {
#pragma unroll
      for (int i = 0; i < kUnit / 2; ++i) {
        const int32_t key = at + i / 4 * 8 + i % 2;
        const int h = i / 2 % 2;
        if (key < begin[h] || key >= end[h]) scores[i] = -INFINITY;
      }
    }
    float highest[2] = {-INFINITY, -INFINITY};
#pragma unroll
    for (int i = 0; i < kUnit / 2; ++i) highest[i / 2 % 2] = fmaxf(highest[i / 2 % 2], scores[i]);
    float base[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      highest[h] = fmaxf(highest[h], __shfl_xor_sync(~0u, highest[h], 1));
      highest[h] = fmaxf(highest[h], __shfl_xor_sync(~0u, highest[h], 2)) * scale;
      highest[h] = fmaxf(highest[h], maximum[h]);
      base[h] = highest[h] == -INFINITY ? 0.0F : highest[h];
      const float old_scale = exp2_fast(maximum[h] - base[h]);
      maximum[h] = highest[h];
      sum[h] = __fmul_rn(sum[h], old_scale);
#pragma unroll
      for (int j = 0; j < kHeadDim / 8; ++j) {
        values[4 * j + 2 * h] *= old_scale;
        values[4 * j + 2 * h + 1] *= old_scale;
      }
    }
    float sums[2] = {};
#pragma unroll
    for (int g = 0; g < kUnit / 32; ++g) {
      float* group = scores + 16 * g;
#pragma unroll
      for (int i = 0; i < 16; ++i) group[i] = exp2_fast(__fmaf_rn(group[i], scale, -base[i / 2 % 2]));
#pragma unroll
      for (int h = 0; h < 2; ++h) sums[h] = g == 0 ? group_sum(group, h) : __fadd_rn(sums[h], group_sum(group, h));
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) sum[h] = __fadd_rn(sum[h], sums[h]);
  }

  static __device__ void consume(const AttentionCall& call, char* stages, const char* query_tiles, Tail& tail) {
    const int group = static_cast<int>(threadIdx.x) / 128, lane = threadIdx.x % 32;
    const int32_t m = static_cast<int32_t>(threadIdx.x) / 32 * 16 + lane / 4;  // and m + 8
    const int32_t token[2] = {m / call.group, (m + 8) / call.group};
    int32_t slot = 0, parity = 0, work_slot = 0, work_parity = 0;
    const auto release = [&](int32_t which) {
      if (lane == 0) barrier_arrive(&tail.empty[which]);
    };
    while (true) {
      barrier_wait(&tail.work_full[work_slot], work_parity);
      const Work& work = tail.works[work_slot];
      if (work.done != 0) return;
      const char* queries = query_tiles + work_slot * kQueryBytes + group * 64 * 128;
      const int32_t begin[2] = {work.begin[token[0]], work.begin[token[1]]};
      const int32_t end[2] = {work.end[token[0]], work.end[token[1]]};
      float total[kWhole ? kHeadDim / 2 : 1] = {};
      float maximum[2] = {-INFINITY, -INFINITY}, sum[2] = {};
      for (int32_t split = work.split_begin; split < work.split_end; ++split) {
        float values[kHeadDim / 2] = {};
        float split_maximum[2] = {-INFINITY, -INFINITY}, split_sum[2] = {};
        const int32_t units = last_unit(work.high, split);
        for (int32_t u = first_unit(work.low, split); u < units; ++u) {
          const int32_t first = split * kSplit + u * kUnit;
          float scores[kUnit / 2];
          barrier_wait(&tail.full[slot], parity);
          wgmma_fence();
#pragma unroll
          for (int k = 0; k < kHeadDim / 16; ++k) {
            wgmma<kUnit>(scores, descriptor(queries + k / 4 * kQueryRows * 128, 16, 1024) + k % 4 * 2,
                         descriptor(stages + slot * kStageBytes + k / 4 * 1024, 16, kEightTokens) + k % 4 * 2, k > 0);
          }
          wgmma_commit();
          wgmma_wait<0>();
          release(slot);
          if (++slot == kStages) slot = 0, parity ^= 1;
          weigh(call.scale, first + lane % 4 * 2, first, begin, end, scores, split_maximum, split_sum, values);
          uint32_t weights[kUnit / 4];
#pragma unroll
          for (int i = 0; i < kUnit / 4; ++i) weights[i] = pack_bf16(scores[2 * i], scores[2 * i + 1]);
          barrier_wait(&tail.full[slot], parity);
          char* stage = stages + slot * kStageBytes;
          if (first < work.low || first + kUnit > work.high) clear_unseen(work, first, stage, group);
          wgmma_fence();
#pragma unroll
          for (int k = 0; k < kUnit / 16; ++k) {
            wgmma_rows<kHeadDim>(values, &weights[4 * k], descriptor(stage + 2 * k * kEightTokens, 1024, kEightTokens), 1);
          }
          wgmma_commit();
          wgmma_wait<0>();
          release(slot);
          if (++slot == kStages) slot = 0, parity ^= 1;
        }
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          split_sum[h] += __shfl_xor_sync(~0u, split_sum[h], 1);
          split_sum[h] += __shfl_xor_sync(~0u, split_sum[h], 2);
        }
        if constexpr (kWhole) {
          float old_scale[2], new_scale[2];
#pragma unroll
          for (int h = 0; h < 2; ++h) {
            merge(maximum[h], sum[h], split_maximum[h], split_sum[h], old_scale[h], new_scale[h]);
          }
#pragma unroll
          for (int i = 0; i < kHeadDim / 2; ++i) {
            const int h = i / 2 % 2;
            total[i] = __fmaf_rn(values[i], new_scale[h], __fmul_rn(total[i], old_scale[h]));
          }
        } else {
#pragma unroll
          for (int h = 0; h < 2; ++h) {
            if (token[h] >= work.rows || m + 8 * h >= kQueryRows / call.group * call.group) continue;
            const int64_t place = ((int64_t{work.first_row} + token[h]) * call.n_kv_heads * call.group +
                                   work.head * call.group + (m + 8 * h) % call.group) * call.max_splits + split;
            if (lane % 4 == 0) call.extent[place] = make_float2(split_maximum[h], split_sum[h]);
#pragma unroll
            for (int j = 0; j < kHeadDim / 8; ++j) {
              *reinterpret_cast<float2*>(call.partial + place * kHeadDim + 8 * j + lane % 4 * 2) =
                  make_float2(values[4 * j + 2 * h], values[4 * j + 2 * h + 1]);
            }
          }
        }
      }
      if constexpr (kWhole) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          if (token[h] >= work.rows || m + 8 * h >= kQueryRows / call.group * call.group) continue;
          __nv_bfloat16* row = call.out + (int64_t{work.first_row} + token[h]) * call.out_stride +
                               (work.head * call.group + (m + 8 * h) % call.group) * kHeadDim;
#pragma unroll
          for (int j = 0; j < kHeadDim / 8; ++j) {
            *reinterpret_cast<uint32_t*>(row + 8 * j + lane % 4 * 2) =
                pack_bf16(normalised(total[4 * j + 2 * h], sum[h]), normalised(total[4 * j + 2 * h + 1], sum[h]));
          }
        }
      }
      __syncwarp();
      if (lane == 0) barrier_arrive(&tail.work_empty[work_slot]);
      work_slot ^= 1;
      if (work_slot == 0) work_parity ^= 1;
    }
  }

  static __device__ void run(const AttentionCall& call, const CUtensorMap* queries, char* raw) {
    char* stages = raw + (1024 - shared_address(raw) % 1024) % 1024;
    char* query_tiles = stages + kStages * kStageBytes;
    Tail& tail = *reinterpret_cast<Tail*>(query_tiles + 2 * kQueryBytes);
    if (threadIdx.x == 0) {
      for (int i = 0; i < 2; ++i) {
        barrier_init(&tail.work_full[i], 32);  // the producer's lanes
        barrier_init(&tail.work_empty[i], kConsumers / 32);
      }
      for (int i = 0; i < kStages; ++i) {
        barrier_init(&tail.full[i], 1);
        barrier_init(&tail.empty[i], kConsumers / 32);
      }
      barrier_init_fence();
    }
    __syncthreads();
    let_successor_start();
    wait_for_predecessors();
    if (threadIdx.x >= kConsumers) {
      if constexpr (kGroups == 2) asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
      if (threadIdx.x < kConsumers + 32) produce(call, queries, stages, query_tiles, tail);
    } else {
      if constexpr (kGroups == 2) asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
      consume(call, stages, query_tiles, tail);
    }
  }
};

template <class Shape>
__global__ void __launch_bounds__(Shape::kThreads, 1)
    attention_kernel(const __grid_constant__ CUtensorMap queries, const __grid_constant__ AttentionCall call) {
  extern __shared__ char raw[];
  Shape::run(call, &queries, raw);
}

}  // namespace ashlar::cuda
