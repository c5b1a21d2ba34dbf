// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tensors in one piece of memory, which are laid out twice: to count, then to place.

#include <memory>

#include "device/ops.h"
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

/// Memory for what `lay_out`, called with a room and giving its size, takes; then it is placed there.
template <class LayOut>
std::unique_ptr<Buffer> place_tensors(Ops& ops, const LayOut& lay_out) {
  std::unique_ptr<Buffer> memory = ops.allocate(lay_out(TensorRoom(nullptr)));
  lay_out(TensorRoom(memory->data()));
  return memory;
}

}  // namespace ashlar
