// SPDX-License-Identifier: Apache-2.0
#pragma once
// Choosing tokens: the argmax of logits, or of tempered logits plus Gumbel noise that is a pure function of (seed,
// position, token), word for word that of decode/noise.h.

#include <cooperative_groups.h>

#include "hopper.cuh"

namespace ashlar::cuda {

/// Philox4x32-10 (Salmon et al., SC 2011).
__device__ __forceinline__ uint4 philox(uint4 counter, uint32_t key0, uint32_t key1) {
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const uint32_t high0 = __umulhi(0xD2511F53u, counter.x), low0 = 0xD2511F53u * counter.x;
    const uint32_t high1 = __umulhi(0xCD9E8D57u, counter.z), low1 = 0xCD9E8D57u * counter.z;
    counter = {high1 ^ counter.y ^ key0, low1, high0 ^ counter.w ^ key1, low0};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

/// Words of tokens 4 index .. 4 index + 3.
__device__ __forceinline__ uint4 noise_words(uint64_t seed, int32_t position, uint32_t index, uint32_t domain) {
  return philox({index, static_cast<uint32_t>(position), domain, 0}, static_cast<uint32_t>(seed),
                static_cast<uint32_t>(seed >> 32));
}

__device__ __forceinline__ double gumbel(uint32_t word) { return -log(-log((word + 0.5) * 0x1p-32)); }

/// The same to about 1e-5 in fp32. Near word 2^32 - 1, where the largest noise is, the logarithm comes from a series in the
/// distance to 1, which fp32 holds exactly enough.
__device__ __forceinline__ float gumbel_about(uint32_t word) {
  const float rest = (static_cast<float>(~word) + 0.5F) * 0x1p-32F;  // 1 - u
  const float near = rest * (1 + rest * (0.5F + rest * (1.0F / 3 + rest * (0.25F + rest * 0.2F))));
  const float far = -__logf((static_cast<float>(word) + 0.5F) * 0x1p-32F);
  return -__logf(rest < 0.0625F ? near : far);
}

/// What a row draws with. inverse_temperature 0: plain argmax.
struct Draw {
  uint64_t seed;
  int32_t position;
  float inverse_temperature;
  uint32_t domain;
};

/// A token that may win: the value in fp32 and what it is made of.
struct Candidate {
  float about;  ///< -inf: none
  int32_t id;
  float tempered;
};

/// The exact value, as on the host: fp32 product, noise in fp64.
__device__ __forceinline__ double exact_value(const Candidate& candidate, const Draw& draw) {
  if (draw.inverse_temperature == 0) return candidate.tempered;
  const uint4 block = noise_words(draw.seed, draw.position, static_cast<uint32_t>(candidate.id) / 4, draw.domain);
  const uint32_t words[4] = {block.x, block.y, block.z, block.w};
  return static_cast<double>(candidate.tempered) + gumbel(words[candidate.id % 4]);
}

/// Keeps the better of two: the larger value, of equal values the lower id. Order cannot matter: where fp32 cannot tell,
/// fp64 decides.
__device__ __forceinline__ void offer(Candidate& best, const Candidate& other, const Draw& draw) {
  const float margin = draw.inverse_temperature == 0 ? 0.0F : 1e-3F + 1e-6F * fabsf(other.about);
  if (other.about < best.about - margin || other.about == -INFINITY) return;
  if (other.about > best.about + margin) {
    best = other;
    return;
  }
  const double a = exact_value(best, draw), b = exact_value(other, draw);
  if (b > a || (b == a && other.id < best.id)) best = other;
}

inline constexpr int kChooseBlocks = 8;  ///< a cluster, one row
inline constexpr int kChooseThreads = 1024;

/// ids[r]: what row r of logits [rows, n] draws; -1 where nothing is a number above minus infinity. n is a multiple of 4.
__global__ void __cluster_dims__(kChooseBlocks, 1, 1) __launch_bounds__(kChooseThreads, 1)
    choose(const float* logits, int64_t stride, int32_t n, const Draw* draws, int32_t* ids) {
  __shared__ Candidate bests[32];
  __shared__ Candidate block_best;
  let_successor_start();
  wait_for_predecessors();
  const int32_t row = blockIdx.x / kChooseBlocks;
  const Draw draw = draws[row];
  const auto* quads = reinterpret_cast<const float4*>(logits + row * stride);
  Candidate best{-INFINITY, INT32_MAX, 0};
  constexpr int32_t kStep = kChooseBlocks * kChooseThreads, kAhead = 5;
  for (int32_t first = static_cast<int32_t>(blockIdx.x % kChooseBlocks * kChooseThreads + threadIdx.x); first < n / 4;
       first += kAhead * kStep) {
    float4 loaded[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int32_t q = first + i * kStep;
      loaded[i] = q < n / 4 ? __ldcs(quads + q) : make_float4(-INFINITY, -INFINITY, -INFINITY, -INFINITY);
    }
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int32_t q = first + i * kStep;
      const float values[4] = {loaded[i].x, loaded[i].y, loaded[i].z, loaded[i].w};
      if (draw.inverse_temperature == 0) {
#pragma unroll
        for (int c = 0; c < 4; ++c) {  // ids ascend within a thread
          if (values[c] > best.about) best = {values[c], 4 * q + c, values[c]};
        }
      } else {
        const uint4 block = noise_words(draw.seed, draw.position, static_cast<uint32_t>(q), draw.domain);
        const uint32_t words[4] = {block.x, block.y, block.z, block.w};
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          if (!(values[c] > -INFINITY)) continue;  // not a number, or excluded
          const float tempered = values[c] * draw.inverse_temperature;
          offer(best, {tempered + gumbel_about(words[c]), 4 * q + c, tempered}, draw);
        }
      }
    }
  }
  const auto from_lane = [&](const Candidate& mine, int distance) {
    return Candidate{__shfl_xor_sync(~0u, mine.about, distance), __shfl_xor_sync(~0u, mine.id, distance),
                     __shfl_xor_sync(~0u, mine.tempered, distance)};
  };
#pragma unroll 1
  for (int distance = 16; distance > 0; distance /= 2) offer(best, from_lane(best, distance), draw);
  if (threadIdx.x % 32 == 0) bests[threadIdx.x / 32] = best;
  __syncthreads();
  if (threadIdx.x < 32) {
    best = bests[threadIdx.x];
#pragma unroll 1
    for (int distance = 16; distance > 0; distance /= 2) offer(best, from_lane(best, distance), draw);
    if (threadIdx.x == 0) block_best = best;
  }
  cluster_sync();
  if (blockIdx.x % kChooseBlocks == 0 && threadIdx.x == 0) {
    const auto cluster = cooperative_groups::this_cluster();
#pragma unroll 1
    for (unsigned i = 1; i < kChooseBlocks; ++i) offer(best, *cluster.map_shared_rank(&block_best, i), draw);
    ids[row] = best.about == -INFINITY ? -1 : best.id;
  }
  cluster_sync();
}

}  // namespace ashlar::cuda
