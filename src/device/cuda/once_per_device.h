// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a kernel needs once on each GPU that it runs on: what it is allowed there, what the GPU is.

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>

namespace ashlar::cuda {

/// Calls fn(device) for the GPU that the calling thread works on, unless that was done. Several threads may do it at
/// once, each for itself: it must do no harm twice.
class OncePerDevice {
 public:
  template <class Fn>
  void operator()(const Fn& fn) {
    int device = 0;
    cudaGetDevice(&device);
    const uint64_t bit = device < 64 ? uint64_t{1} << device : 0;  // of more than 64 the rest each time
    if ((done_.load(std::memory_order_acquire) & bit) != 0) return;
    fn(device);
    done_.fetch_or(bit, std::memory_order_release);
  }

 private:
  std::atomic<uint64_t> done_ = 0;
};

/// Lets blocks of a kernel have up to `bytes` of shared memory. Where it is refused, so is the launch.
template <class Kernel>
void allow_shared_bytes(OncePerDevice& once, Kernel* kernel, int bytes) {
  once([&](int /*device*/) { cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes); });
}

}  // namespace ashlar::cuda
