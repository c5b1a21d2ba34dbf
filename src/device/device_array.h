// SPDX-License-Identifier: Apache-2.0
#pragma once
// An array in device memory that the host fills or reads now and then.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/check.h"
#include "device/ops.h"

namespace ashlar {

template <class T>
class DeviceArray {
 public:
  DeviceArray() = default;
  DeviceArray(Ops& ops, int64_t size)
      : ops_(&ops), size_(size), memory_(ops.allocate(sizeof(T) * static_cast<size_t>(size))) {}

  int64_t size() const { return size_; }
  T* device() const { return reinterpret_cast<T*>(memory_->data()); }
  /// Makes the first elements those of `values`.
  void upload(std::span<const T> values) {
    ASHLAR_CHECK_LE(static_cast<int64_t>(values.size()), size_);
    ops_->upload(values.data(), memory_->data(), values.size_bytes());
  }
  /// The first n elements as they are now; valid until the next call.
  std::span<const T> download(int64_t n) {
    ASHLAR_CHECK_LE(n, size_);
    copy_.resize(static_cast<size_t>(size_));
    ops_->download(memory_->data(), copy_.data(), sizeof(T) * static_cast<size_t>(n));
    return std::span(copy_).first(static_cast<size_t>(n));
  }

 private:
  Ops* ops_ = nullptr;
  int64_t size_ = 0;
  std::unique_ptr<Buffer> memory_;
  std::vector<T> copy_;
};

}  // namespace ashlar
