// SPDX-License-Identifier: Apache-2.0
#pragma once
// Dependent launches: on compute capability 9.0 a kernel may start while the one before it in the stream still runs, so
// that its launch and what it does before its wait cost no time. Before its wait it may rely on nothing that kernels
// write: on weights, and on what the host uploads for a pass (rows, page tables), since kernels wait for copies before
// them and a kernel starts after the one before it started. Every block waits before it ends, so that the end of a
// kernel is the end of all before it; so a kernel can let the next one start first thing.

#include <cuda_runtime_api.h>

#include <atomic>
#include <utility>

#include "../once_per_device.h"

namespace ashlar::cuda {

/// Waits until the kernels before this one have ended and their writes are visible.
__device__ __forceinline__ void wait_for_predecessors() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// Lets the next kernel start as soon as every block has said so and room is free.
__device__ __forceinline__ void let_successor_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/// First in a kernel that reads nothing before it waits.
__device__ __forceinline__ void begin_kernel() {
  let_successor_start();
  wait_for_predecessors();
}

/// Whether the calling thread's GPU runs the code for 9.0, which waits. Other GPUs run code that does not, so theirs
/// must not start early; one such GPU in use is enough for none to do so.
inline bool kernels_wait() {
  static OncePerDevice asked;
  static std::atomic<bool> all_wait = true;
  asked([](int device) {
    int major = 0, minor = 0;
    const bool waits = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess &&
                       cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) == cudaSuccess &&
                       major == 9 && minor == 0;
    if (!waits) all_wait.store(false, std::memory_order_relaxed);
  });
  return all_wait.load(std::memory_order_relaxed);
}

struct Blocks {
  dim3 grid;
  unsigned threads;
  size_t shared_bytes = 0;
  unsigned cluster = 1;  ///< blocks that run together, on compute capability 9.0
};

/// Queues a kernel that waits for its predecessors itself.
template <class... Parameters, class... Arguments>
void start(cudaStream_t stream, const Blocks& blocks, void (*kernel)(Parameters...), Arguments&&... arguments) {
  cudaLaunchAttribute attributes[2] = {};
  unsigned n = 0;
  if (blocks.cluster > 1) {  // which such kernels cannot do without
    attributes[n].id = cudaLaunchAttributeClusterDimension;
    attributes[n++].val.clusterDim = {blocks.cluster, 1, 1};
  }
  if (kernels_wait()) {
    attributes[n].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[n++].val.programmaticStreamSerializationAllowed = 1;
  }
  cudaLaunchConfig_t config = {};
  config.gridDim = blocks.grid;
  config.blockDim = dim3(blocks.threads);
  config.dynamicSmemBytes = blocks.shared_bytes;
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = n;
  cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...);
}

}  // namespace ashlar::cuda
