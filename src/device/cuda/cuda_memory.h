// SPDX-License-Identifier: Apache-2.0
#pragma once
// Memory of the GPU, and ways between it and the host.

#include <cuda_runtime_api.h>

#include <memory>
#include <mutex>

#include "device/ops.h"

namespace ashlar::cuda {

/// A stream, and memory that is handed out and given back in its order: what was asked of the stream before a buffer
/// goes may still use it. Any thread may call.
class Memory {
 public:
  /// `device`: which GPU, that require_device() has found.
  explicit Memory(int32_t device);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  int32_t device() const { return device_; }
  /// For the calling thread, which works on this GPU from now on: what it launches belongs there.
  cudaStream_t stream() const;

  /// Zeroed. It must go before this object.
  std::unique_ptr<Buffer> allocate(size_t bytes);
  /// Returns when `from` may be used again.
  void upload(const void* from, std::byte* to, size_t bytes);
  /// Waits for all that was asked of the stream.
  void download(const std::byte* from, void* to, size_t bytes);
  /// The same into pinned memory of this object, which a host that works on megabytes need not copy once more. They may
  /// be overwritten, and stay until the next call, of one thread at a time.
  std::byte* fetch(const std::byte* from, size_t bytes);
  void copy(const std::byte* from, std::byte* to, size_t bytes);

 private:
  class StreamBuffer;
  void wait();

  const int32_t device_;
  cudaStream_t stream_ = nullptr;
  cudaMemPool_t pool_ = nullptr;
  // Pinned memory, which the GPU reads and writes while the host goes on.
  std::mutex mutex_;
  std::byte* outgoing_ = nullptr;  ///< a ring: copies from before `used_` may be in flight
  std::byte* incoming_ = nullptr;
  size_t used_ = 0;
  std::byte* fetched_ = nullptr;  ///< grows to what was asked for
  size_t fetched_size_ = 0;
};

/// Memory for what is between two kernels of an op. It grows to what has been asked for and stays.
class Scratch {
 public:
  explicit Scratch(Memory& memory) : memory_(memory) {}
  void* reserve(size_t bytes);

 private:
  Memory& memory_;
  std::unique_ptr<Buffer> buffer_;
};

}  // namespace ashlar::cuda
