// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tensors in one piece of memory, which are laid out twice: to count, then to place.

#include "device/tensor.h"

namespace ashlar {

class TensorRoom {
 public:
  /// Null: to count.
  explicit TensorRoom(std::byte* memory) : memory_(memory) {}

  Tensor take(int32_t rows, int32_t cols, DType dtype = DType::kF32) {
    constexpr size_t kAlignment = 64;
    const Tensor tensor = {memory_ == nullptr ? nullptr : memory_ + size_, rows, cols, cols, dtype};
    const size_t bytes = bytes_of(dtype) * static_cast<size_t>(rows) * static_cast<size_t>(cols);
    size_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return tensor;
  }
  size_t size() const { return size_; }

 private:
  std::byte* memory_;
  size_t size_ = 0;
};

}  // namespace ashlar
