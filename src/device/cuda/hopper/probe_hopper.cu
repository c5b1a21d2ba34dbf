// SPDX-License-Identifier: Apache-2.0
// Multiplies as fast as Hopper's tensor cores do, from shared memory alone.

#include "../kernels.h"
#include "../kernels/dependent.cuh"
#include "hopper.cuh"
#include "wgmma.cuh"

namespace ashlar::cuda {
namespace {

constexpr int kWarpgroups = 2;
constexpr int kRows = 64, kColumns = 256, kDepth = 64;  ///< of a warpgroup's product
constexpr int kSteps = kDepth / 16;
constexpr int kRowBytes = 2 * kDepth;

// The operands are no zeros, which would take less power and leave the clock higher than any work does: random signs
// and mantissas, between 1 and 2, whose sums stay finite.
__global__ void __launch_bounds__(128 * kWarpgroups, 1) multiply_kernel(int32_t rounds, float* sink) {
  __shared__ __align__(1024) uint32_t tiles[(kRows + kColumns) * kRowBytes / 4];
  begin_kernel();
  for (uint32_t i = threadIdx.x; i < sizeof(tiles) / 4; i += blockDim.x) {
    uint32_t bits = (i + 1) * 0x9E3779B9U;
    bits ^= bits >> 15;
    bits *= 0x85EBCA6BU;
    tiles[i] = 0x3F803F80U | (bits & 0x807F807FU);
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  const uint64_t a = tile_descriptor(tiles), b = tile_descriptor(tiles + kRows * kRowBytes / 4);
  float sum[kColumns / 2];
  for (int32_t i = 0; i < rounds; ++i) {
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < kSteps; ++k) wgmma<kColumns>(sum, a + 2 * k, b + 2 * k, i > 0 || k > 0);
    wgmma_commit();
    wgmma_wait<1>();
  }
  wgmma_wait<0>();
  float all = 0;
#pragma unroll
  for (const float value : sum) all += value;
  if (all == 0.123F) *sink = all;  // so that the products stay
}

}  // namespace

double multiply_hopper(cudaStream_t stream, int32_t rounds, int32_t multiprocessors, float* sink) {
  start(stream, {dim3(static_cast<unsigned>(multiprocessors)), 128 * kWarpgroups}, multiply_kernel, rounds, sink);
  return 2.0 * kRows * kColumns * kDepth * kWarpgroups * multiprocessors * rounds;
}

}  // namespace ashlar::cuda
