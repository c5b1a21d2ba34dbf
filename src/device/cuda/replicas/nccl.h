// SPDX-License-Identifier: Apache-2.0
#pragma once
// The few calls of NCCL that sums over replicas need. The library is loaded when several GPUs are asked for: the
// program needs it neither to be built nor for anything else.

#include <cuda_runtime_api.h>

#include <atomic>
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
  /// Throws Error("cuda", ...) if what was queued on the rank's GPU has failed since.
  void check_queued(int32_t rank) const;
  /// Ends what the rank's GPU is in the midst of, which may be waiting for one that never comes; nothing can be summed
  /// any more. From the rank's own thread, once at most.
  void abort(int32_t rank);

 private:
  struct Calls;
  void check(int status, const char* call) const;

  const Calls& calls_;
  std::vector<void*> communicators_;   // null: aborted
  std::atomic<bool> aborted_ = false;  // one of them at least
};

}  // namespace ashlar::cuda
