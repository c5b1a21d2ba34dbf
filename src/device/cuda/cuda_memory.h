// SPDX-License-Identifier: Apache-2.0
#pragma once
// Memory of the GPU, and ways between it and the host.

#include <cuda_runtime_api.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <thread>

#include "base/machine/available_memory.h"
#include "device/cuda/stamps.h"
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
  /// Where a kernel goes, for the calling thread, which works on this GPU from now on: to the stream or, from a thread
  /// that records, to its recording.
  cudaStream_t stream();
  /// The same for what is no kernel and counts as none: copies, events, questions.
  cudaStream_t queue() const;
  /// Where a recorded pass is launched; ends the row of single kernels before it.
  cudaStream_t stream_of_passes();

  /// While it lives, what its thread asks of stream() is written down and not done. Memory is made and freed as ever.
  class Recording {
   public:
    explicit Recording(Memory& memory);
    ~Recording();
    Recording(const Recording&) = delete;
    Recording& operator=(const Recording&) = delete;
    /// Ends it. Null where something was asked for that cannot be recorded.
    cudaGraph_t take();

   private:
    Memory& memory_;
    bool records_ = true;
  };

  /// Changes when what was recorded before may be right no more: with every buffer that is freed.
  uint64_t freed() const { return freed_.load(std::memory_order_relaxed); }

  /// From now on stamps say when the stream works, where the host might keep it waiting: before and after recorded
  /// passes, and kernels between two of them or two waits. Null: no more. Not while others ask anything of the stream.
  void watch(Stamps* stamps);
  /// A stamp at an end of what is recorded, if stamps are wanted.
  void mark_recording(bool end);
  /// Kernels, or a few that belong together, that did not become part of a recording.
  int64_t loose_launches() const { return loose_launches_.load(std::memory_order_relaxed); }
  /// A recording of this many kernels was launched.
  void count_recorded(int64_t kernels) { recorded_launches_.fetch_add(kernels, std::memory_order_relaxed); }
  /// Nanoseconds that the host last waited for the stream, a kernel since it did so before.
  int64_t wait_of_kernel_ns() const { return wait_of_kernel_ns_.load(std::memory_order_relaxed); }

  /// What allocate() may still take: free memory of the GPU and what this object holds of it without using it, less
  /// what ops take on their own. Of a GPU that shares the host's memory: the host's.
  AvailableMemory available() const;
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
  void begin_loose();
  void end_loose();
  bool records_here() const { return recording_.load(std::memory_order_relaxed) == std::this_thread::get_id(); }

  const int32_t device_;
  cudaStream_t stream_ = nullptr;
  cudaStream_t recorder_ = nullptr;  ///< nothing ever runs there
  std::atomic<std::thread::id> recording_{};
  std::atomic<uint64_t> freed_{0};
  std::atomic<int64_t> loose_launches_{0}, recorded_launches_{0};
  std::atomic<int64_t> launches_before_wait_{0}, wait_of_kernel_ns_{0};
  std::atomic<Stamps*> stamps_ = nullptr;
  std::atomic<bool> is_loose_ = false;  ///< kernels were launched since the last stamp, which was a beginning
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
