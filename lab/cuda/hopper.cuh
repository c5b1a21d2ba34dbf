// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the lab needs of Hopper's instructions beyond src/device/cuda/hopper/hopper.cuh: barriers of some threads, clusters.

#include "device/cuda/hopper/hopper.cuh"

namespace ashlar::cuda {

/// A barrier of `threads` threads of the block. Id 0 belongs to __syncthreads().
__device__ __forceinline__ void sync_threads(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// --- Clusters.

__device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/// Reads 16 bytes at the same place in the shared memory of block `rank` of the cluster.
__device__ __forceinline__ float4 load_peer(const float4* own, uint32_t rank) {
  uint32_t address;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared_address(own)), "r"(rank));
  float4 value;
  asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
               : "r"(address)
               : "memory");
  return value;
}

}  // namespace ashlar::cuda
