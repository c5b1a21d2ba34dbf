// SPDX-License-Identifier: Apache-2.0
#pragma once
// Thin wrappers over the instructions of Hopper that CUDA C++ has no words for: transaction barriers, bulk copies,
// warpgroup fences. One function is one instruction; nothing here knows about models.

#include <cuda.h>
#include <cuda_bf16.h>

#include <cstdint>

#include "../kernels/dependent.cuh"
#include "../kernels/pairs.cuh"

namespace ashlar::cuda {

__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// --- Barriers in shared memory. A barrier counts arrivals and bytes of bulk copies; its phase flips when both are in.

__device__ __forceinline__ void barrier_init(uint64_t* barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}

/// Makes initialised barriers visible to the copy engine and to the other blocks of the cluster.
__device__ __forceinline__ void barrier_init_fence() {
  asm volatile("fence.mbarrier_init.release.cluster;\n\tfence.proxy.async.shared::cta;" ::: "memory");
}

__device__ __forceinline__ void barrier_arrive(uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

/// Arrives and announces that copies will bring `bytes`.
__device__ __forceinline__ void barrier_expect(uint64_t* barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
               : "memory");
}

/// Waits for the end of the phase with this parity: of a new barrier, parity 1 is over already and 0 is running.
__device__ __forceinline__ void barrier_wait(uint64_t* barrier, uint32_t parity) {
  asm volatile(
      "{\n\t.reg .pred done;\n"
      "again:\n\tmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1, 0x989680;\n"
      "\t@!done bra again;\n\t}" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
}

// --- Copies by the copy engine.

/// What the L2 cache should do with lines of a stream that is read once.
__device__ __forceinline__ uint64_t evict_first_policy() {
  uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

__device__ __forceinline__ uint64_t evict_last_policy() {
  uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

/// Contiguous bytes from global to shared memory; both ends and the size are multiples of 16.
__device__ __forceinline__ void copy_bulk(void* to, const void* from, uint32_t bytes, uint64_t* barrier,
                                          uint64_t policy) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::
          "r"(shared_address(to)),
      "l"(from), "r"(bytes), "r"(shared_address(barrier)), "l"(policy)
      : "memory");
}

/// The box of a two-dimensional tensor that starts at (column, row). Elements outside the tensor arrive as zeros.
__device__ __forceinline__ void copy_box(void* to, const CUtensorMap* map, int32_t column, int32_t row,
                                         uint64_t* barrier, uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%3, "
      "%4}], [%2], %5;" ::"r"(shared_address(to)),
      "l"(map), "r"(shared_address(barrier)), "r"(column), "r"(row), "l"(policy)
      : "memory");
}

__device__ __forceinline__ void prefetch_map(const CUtensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// --- Warpgroup products.

/// Describes an operand tile of 64 bf16 columns (128 bytes a row, 16-byte pieces permuted by row % 8) to wgmma. Adding
/// 2 moves on by 16 columns.
__device__ __forceinline__ uint64_t tile_descriptor(const void* tile) {
  constexpr uint64_t kSwizzle128 = uint64_t{1} << 62;
  constexpr uint64_t kEightRows = uint64_t{1024 / 16} << 32;
  return kSwizzle128 | kEightRows | (uint64_t{1} << 16) | ((shared_address(tile) & 0x3FFFF) >> 4);
}

// No clobber of memory: the operands in shared memory are ordered by barriers, and reads of others may move across.
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;"); }
template <int kInFlight>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kInFlight));
}

/// What is the same in all lanes, as the compiler cannot know.
__device__ __forceinline__ int of_warp(int value) { return __shfl_sync(0xFFFFFFFFU, value, 0); }

// --- Clusters of blocks.

__device__ __forceinline__ uint32_t cluster_rank() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
/// Every thread of the cluster says that it has come so far, without waiting.
__device__ __forceinline__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.aligned;" ::: "memory"); }
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.aligned;" ::: "memory"); }

/// The place in block `rank` of the cluster that `pointer` is in this one.
__device__ __forceinline__ uint32_t address_in(const void* pointer, uint32_t rank) {
  uint32_t address;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared_address(pointer)), "r"(rank));
  return address;
}

/// Stores 16 bytes in another block, whose barrier counts them.
__device__ __forceinline__ void store_async(uint32_t to, float a, float b, float c, float d, uint32_t barrier) {
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(to),
      "f"(a), "f"(b), "f"(c), "f"(d), "r"(barrier)
      : "memory");
}

/// Arrives in another block without a fence: what was read before is read.
__device__ __forceinline__ void barrier_arrive_at(uint32_t barrier) {
  asm volatile("mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/// barrier_wait() for what other blocks of the cluster did.
__device__ __forceinline__ void barrier_wait_cluster(uint64_t* barrier, uint32_t parity) {
  asm volatile(
      "{\n\t.reg .pred done;\n"
      "again:\n\tmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1, 0x989680;\n"
      "\t@!done bra again;\n\t}" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
}

// --- Matrices.

/// Four 8x8 matrices of bf16, stored transposed: lane l gives the address of row l % 8 of matrix l / 8.
__device__ __forceinline__ void store_transposed(void* row, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared_address(row)),
               "r"(a), "r"(b), "r"(c), "r"(d)
               : "memory");
}

}  // namespace ashlar::cuda
