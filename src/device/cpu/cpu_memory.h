// SPDX-License-Identifier: Apache-2.0
#pragma once
// Memory for weights and buffers: zeroed, on a border of cache lines and, from a page on, of pages; on huge pages where
// it is large (a stream over 4 KiB pages loses 5-10 % of the read bandwidth to address translation).

#include <cstddef>
#include <cstdint>
#include <memory>

#include "device/ops.h"

namespace ashlar::cpu {

class Memory {
 public:
  explicit Memory(size_t bytes);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  size_t size_ = 0;
  size_t mapped_ = 0;  ///< bytes mapped, 0 if the memory is from the heap
  std::byte* data_ = nullptr;
};

/// Weights one after the other on shared huge pages: single weights are often smaller than one, and prefetching past
/// the end of one weight then reaches the next. A chunk is freed with the last piece taken from it.
class Arena {
 public:
  std::shared_ptr<std::byte> take(size_t bytes);

 private:
  std::weak_ptr<Memory> chunk_;
  size_t used_ = 0;
};

/// Working memory that grows on demand and loses its contents then. On a border of cache lines at least: vectors and
/// rows of tiles that straddle two lines cost twice.
class Scratch {
 public:
  std::byte* bytes(size_t size) {
    if (size > size_) {
      memory_ = std::make_unique<Memory>(size);
      data_ = memory_->data();
      size_ = size;
    }
    return data_;
  }
  float* floats(int64_t count) { return reinterpret_cast<float*>(bytes(static_cast<size_t>(count) * sizeof(float))); }

 private:
  std::unique_ptr<Memory> memory_;
  std::byte* data_ = nullptr;  // at hand, where a loop reads them microseconds apart
  size_t size_ = 0;
};

class CpuBuffer final : public Buffer {
 public:
  explicit CpuBuffer(size_t bytes) : memory_(bytes) {}
  std::byte* data() override { return memory_.data(); }
  size_t size() const override { return memory_.size(); }

 private:
  Memory memory_;
};

}  // namespace ashlar::cpu
