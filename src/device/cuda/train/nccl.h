// SPDX-License-Identifier: Apache-2.0
#pragma once
// The few calls of NCCL that sums over replicas need. The library is loaded when several GPUs are asked for: the
// program needs it neither to be built nor for anything else.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ashlar::cuda {

/// Communicators of one process, one for each GPU.
class Nccl {
 public:
  /// `devices`: GPUs that differ. Throws Error("cuda", ...) where the library is missing, saying what to install, or
  /// refuses them.
  explicit Nccl(std::span<const int32_t> devices);
  ~Nccl();
  Nccl(const Nccl&) = delete;
  Nccl& operator=(const Nccl&) = delete;

  /// values [n] of every rank become their sum; queued on a stream of the rank's GPU. Every rank does it, from its own
  /// thread, which works on that GPU.
  void sum(int32_t rank, float* values, size_t n, cudaStream_t stream);

 private:
  struct Calls;
  void check(int status, const char* call) const;

  const Calls& calls_;
  std::vector<void*> communicators_;
};

}  // namespace ashlar::cuda
