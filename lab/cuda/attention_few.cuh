// SPDX-License-Identifier: Apache-2.0
#pragma once
// Attention for few rows, where what counts is the time of one piece of work: the law of attention.cuh, by mma.sync, whose
// k16 steps give the bits of wgmma. Four warps share a tile of 16 rows x heads: for scores each takes 32 of a unit's 128
// keys, for values a quarter of head_dim, so a unit takes a quarter of the instructions in sequence. A block of threads
// takes one split of a block of rows and leaves it to combine_splits(), unless no row sees more than one: max_splits 1.

#include "attention.cuh"

namespace ashlar::cuda {

__device__ __forceinline__ void load_matrices(uint32_t (&to)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}
__device__ __forceinline__ void load_matrices_transposed(uint32_t (&to)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}
/// d [16, 8] += a [16, 16] b [16, 8].
__device__ __forceinline__ void mma(float* d, const uint32_t* a, const uint32_t* b) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

struct FewCall {
  AttentionCall attention;
  const __nv_bfloat16* q;  ///< [rows, q_stride]: its first columns are the queries
  int64_t q_stride;
};

/// kStages: K or V of a unit each; 4 hold a split, 2 let two blocks live on a multiprocessor.
/// Grid: x: splits; y: key/value heads; z: blocks of rows.
template <int kHeadDim, int kStages>
struct AttentionFew {
  static constexpr int kRows = 16;  // x heads
  static constexpr int kConsumers = 128;
  static constexpr int kThreads = kConsumers + 32;
  static constexpr int kPageBytes = kPageTokens * kHeadDim * 2;
  static constexpr int kStageBytes = kUnit * kHeadDim * 2;
  static constexpr int kEightTokens = kHeadDim * 16;  // bytes
  static constexpr int kWeightPitch = kUnit * 2 + 16;
  static constexpr int kKeyTiles = 4;               // of 8 keys, a warp's
  static constexpr int kDimTiles = kHeadDim / 32;   // of 8 dimensions, a warp's

  struct Tail {
    float maximum[4][kRows];  // of a warp's keys
    float sum[4][kRows][4];   // the same, by pair of keys modulo 8
    uint64_t full[kStages], empty[kStages];
  };
  static constexpr int kSharedBytes = 1024 + kStages * kStageBytes + kRows * kWeightPitch + sizeof(Tail);
  static_assert(kSharedBytes <= 227 * 1024);

  static __device__ int32_t first_unit(int32_t low, int32_t split) { return max(low - split * kSplit, 0) / kUnit; }
  static __device__ int32_t last_unit(int32_t high, int32_t split) {
    return (min(high - split * kSplit, kSplit) + kUnit - 1) / kUnit;
  }

  /// One warp. Keys of earlier steps are on their way before the kernels before this one end.
  static __device__ void produce(const AttentionCall& call, const RowBlock& block, char* stages, Tail& tail) {
    const int lane = threadIdx.x % 32;
    const auto split = static_cast<int32_t>(blockIdx.x);
    const uint64_t policy = evict_first_policy();
    const int32_t position = split * kSplit + lane * kPageTokens;
    const bool seen_here = lane < kSplit / kPageTokens && position < block.high && position + kPageTokens > block.low;
    const int32_t page = seen_here ? call.page_tables[int64_t{block.table} * call.max_pages + position / kPageTokens] : 0;
    const uint32_t seen = __ballot_sync(~0u, seen_here);
    const char* from = call.kv + page * call.page_stride + int64_t{blockIdx.y} * 2 * kPageBytes;
    bool waited = false;
    int32_t slot = 0, parity = 1;
    const int32_t units = last_unit(block.high, split);
    for (int32_t u = first_unit(block.low, split); u < units; ++u) {
      if (!waited && split * kSplit + (u + 1) * kUnit > block.settled) wait_for_predecessors(), waited = true;
      for (int half = 0; half < 2; ++half) {
        barrier_wait(&tail.empty[slot], parity);
        if (lane == 0) {
          barrier_expect(&tail.full[slot], __popc(seen >> (8 * u) & 255) * kPageBytes);
        }
        __syncwarp();
        if (seen_here && lane / kUnitPages == u) {
          copy_bulk(stages + slot * kStageBytes + lane % kUnitPages * kPageBytes, from + half * kPageBytes, kPageBytes,
                    &tail.full[slot], policy);
        }
        if (++slot == kStages) slot = 0, parity ^= 1;
      }
    }
    if (!waited) wait_for_predecessors();
  }

  static __device__ void clear_unseen(const RowBlock& block, int32_t first, char* stage) {
    for (int32_t i = static_cast<int32_t>(threadIdx.x); i < kUnit * kHeadDim / 8; i += kConsumers) {
      const int32_t token = i / (kHeadDim / 8), piece = i % (kHeadDim / 8);
      if (first + token >= block.low && first + token < block.high) continue;
      *reinterpret_cast<uint4*>(stage + token / 8 * kEightTokens + piece / 8 * 1024 + token % 8 * 128 + piece % 8 * 16) =
          uint4{};
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // the copy engine writes here next
    sync_threads(1, kConsumers);
  }

  static __device__ void consume(const FewCall& few, const RowBlock& block, char* stages, char* weights, Tail& tail) {
    const AttentionCall& call = few.attention;
    const int part = static_cast<int>(threadIdx.x) / 32, lane = threadIdx.x % 32;  // which 32 keys, which quarter of the dimensions
    const int32_t m[2] = {lane / 4, lane / 4 + 8};
    int32_t token[2], begin[2], end[2];
    const __nv_bfloat16* query[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      token[h] = m[h] / call.group;
      const bool there = token[h] < block.count;
      const int32_t row = block.first + (there ? token[h] : 0);
      begin[h] = there ? call.begin[row] : 0;
      end[h] = there ? call.end[row] : 0;
      query[h] = few.q + row * few.q_stride + (blockIdx.y * call.group + m[h] % call.group) * kHeadDim;
    }
    wait_for_predecessors();
    uint32_t queries[kHeadDim / 16][4];
#pragma unroll
    for (int k = 0; k < kHeadDim / 16; ++k) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        queries[k][i] = token[i % 2] < block.count
                            ? *reinterpret_cast<const uint32_t*>(query[i % 2] + 16 * k + 8 * (i / 2) + 2 * (lane % 4))
                            : 0;
      }
    }
    const uint32_t weights_at = shared_address(weights);
    const int matrix = lane / 8, line = lane % 8;
    int32_t slot = 0, parity = 0;
    const auto release = [&] {
      __syncwarp();
      if (lane == 0) barrier_arrive(&tail.empty[slot]);
      if (++slot == kStages) slot = 0, parity ^= 1;
    };
    const auto split = static_cast<int32_t>(blockIdx.x);
    float values[kDimTiles][4] = {};
    float maximum[2] = {-INFINITY, -INFINITY}, sum[2] = {};
    const int32_t units = last_unit(block.high, split);
    for (int32_t u = first_unit(block.low, split); u < units; ++u) {
      const int32_t first = split * kSplit + u * kUnit;
      float scores[4 * kKeyTiles] = {};
      barrier_wait(&tail.full[slot], parity);
      const uint32_t keys = shared_address(stages + slot * kStageBytes) + part * kKeyTiles * kEightTokens;
#pragma unroll
      for (int k = 0; k < kHeadDim / 32; ++k) {  // two k16 steps
        const int piece = 4 * k + matrix;
#pragma unroll
        for (int t = 0; t < kKeyTiles; ++t) {
          uint32_t b[4];
          load_matrices(b, keys + t * kEightTokens + piece / 8 * 1024 + line * 128 + ((piece % 8) ^ line) * 16);
          mma(scores + 4 * t, queries[2 * k], b);
          mma(scores + 4 * t, queries[2 * k + 1], b + 2);
        }
      }
      release();
      const int32_t at = first + 32 * part + 2 * (lane % 4);
      float highest[2] = {-INFINITY, -INFINITY};
#pragma unroll
      for (int i = 0; i < 4 * kKeyTiles; ++i) {
        const int32_t key = at + i / 4 * 8 + i % 2;
        const int h = i / 2 % 2;
        if (key < begin[h] || key >= end[h]) scores[i] = -INFINITY;
        highest[h] = fmaxf(highest[h], scores[i]);
      }
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        highest[h] = fmaxf(highest[h], __shfl_xor_sync(~0u, highest[h], 1));
        highest[h] = fmaxf(highest[h], __shfl_xor_sync(~0u, highest[h], 2));
        if (lane % 4 == 0) tail.maximum[part][m[h]] = highest[h];
      }
      sync_threads(1, kConsumers);
      float base[2], old_scale[2];
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int row = m[h];
        const float top = fmaxf(fmaxf(tail.maximum[0][row], tail.maximum[1][row]),
                                fmaxf(tail.maximum[2][row], tail.maximum[3][row])) * call.scale;
        const float now = fmaxf(top, maximum[h]);
        base[h] = now == -INFINITY ? 0.0F : now;
        old_scale[h] = exp2_fast(maximum[h] - base[h]);
        maximum[h] = now;
      }
#pragma unroll
      for (int i = 0; i < 4 * kKeyTiles; ++i) scores[i] = exp2_fast(__fmaf_rn(scores[i], call.scale, -base[i / 2 % 2]));
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int row = m[h];
        tail.sum[part][row][lane % 4] = group_sum(scores, h);
#pragma unroll
        for (int t = 0; t < kKeyTiles; ++t) {
          *reinterpret_cast<uint32_t*>(weights + row * kWeightPitch + (32 * part + 8 * t + 2 * (lane % 4)) * 2) =
              pack_bf16(scores[4 * t + 2 * h], scores[4 * t + 2 * h + 1]);
        }
#pragma unroll
        for (int t = 0; t < kDimTiles; ++t) {
          values[t][2 * h] *= old_scale[h];
          values[t][2 * h + 1] *= old_scale[h];
        }
      }
      barrier_wait(&tail.full[slot], parity);
      if (first < block.low || first + kUnit > block.high) clear_unseen(block, first, stages + slot * kStageBytes);
      sync_threads(1, kConsumers);
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const auto& sums = tail.sum;
        const int row = m[h];
        float total = sums[0][row][lane % 4];
#pragma unroll
        for (int g = 1; g < 4; ++g) total = __fadd_rn(total, sums[g][row][lane % 4]);
        sum[h] = __fadd_rn(__fmul_rn(sum[h], old_scale[h]), total);
      }
      const uint32_t stage = shared_address(stages + slot * kStageBytes);
#pragma unroll
      for (int k = 0; k < kUnit / 16; ++k) {
        uint32_t a[4];
        load_matrices(a, weights_at + (matrix % 2 * 8 + line) * kWeightPitch + (16 * k + matrix / 2 * 8) * 2);
#pragma unroll
        for (int t = 0; t < kDimTiles; t += 2) {
          const int piece = part * kDimTiles + t + matrix / 2;
          uint32_t b[4];
          load_matrices_transposed(b, stage + (2 * k + matrix % 2) * kEightTokens + piece / 8 * 1024 + line * 128 +
                                          ((piece % 8) ^ line) * 16);
          mma(values[t], a, b);
          mma(values[t + 1], a, b + 2);
        }
      }
      release();
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      sum[h] += __shfl_xor_sync(~0u, sum[h], 1);
      sum[h] += __shfl_xor_sync(~0u, sum[h], 2);
      if (token[h] >= block.count || m[h] >= kRows / call.group * call.group) continue;
      if (call.max_splits == 1) {  // what combine_splits() would make of it
        __nv_bfloat16* row = call.out + (int64_t{block.first} + token[h]) * call.out_stride +
                             (blockIdx.y * call.group + m[h] % call.group) * kHeadDim;
#pragma unroll
        for (int t = 0; t < kDimTiles; ++t) {
          *reinterpret_cast<uint32_t*>(row + (part * kDimTiles + t) * 8 + lane % 4 * 2) =
              pack_bf16(normalised(values[t][2 * h], sum[h]), normalised(values[t][2 * h + 1], sum[h]));
        }
        continue;
      }
      const int64_t place = ((int64_t{block.first} + token[h]) * call.n_kv_heads * call.group + blockIdx.y * call.group +
                             m[h] % call.group) * call.max_splits + split;
      if (part == 0 && lane % 4 == 0) call.extent[place] = make_float2(maximum[h], sum[h]);
#pragma unroll
      for (int t = 0; t < kDimTiles; ++t) {
        *reinterpret_cast<float2*>(call.partial + place * kHeadDim + (part * kDimTiles + t) * 8 + lane % 4 * 2) =
            make_float2(values[t][2 * h], values[t][2 * h + 1]);
      }
    }
  }

  static __device__ void run(const FewCall& few, char* raw) {
    const AttentionCall& call = few.attention;
    char* stages = raw + (1024 - shared_address(raw) % 1024) % 1024;
    char* weights = stages + kStages * kStageBytes;
    Tail& tail = *reinterpret_cast<Tail*>(weights + kRows * kWeightPitch);
    if (threadIdx.x == 0) {
      for (int i = 0; i < kStages; ++i) {
        barrier_init(&tail.full[i], 1);
        barrier_init(&tail.empty[i], kConsumers / 32);
      }
      barrier_init_fence();
    }
    const RowBlock block = call.blocks[blockIdx.z];  // uploaded before the step's first kernel, as begin and end
    __syncthreads();
    let_successor_start();
    const auto split = static_cast<int32_t>(blockIdx.x);
    if (call.max_splits > 1 && (split < block.low / kSplit || split * kSplit >= block.high)) {
      wait_for_predecessors();
    } else if (threadIdx.x >= kConsumers) {
      produce(call, block, stages, tail);
    } else {
      consume(few, block, stages, weights, tail);
    }
  }
};

template <class Shape>
__global__ void __launch_bounds__(Shape::kThreads) attention_few_kernel(const __grid_constant__ FewCall call) {
  extern __shared__ char raw[];
  Shape::run(call, raw);
}

}  // namespace ashlar::cuda
