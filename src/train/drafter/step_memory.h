// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tensors of a training step, whose sizes follow from its batch.

#include <memory>
#include <vector>

#include "device/tensor_room.h"
#include "device/train_ops.h"

namespace ashlar {

/// Memory that the tensors of each step share; it grows to what the largest step so far takes.
class StepMemory {
 public:
  /// lay_out(room) takes tensors of the room, the same whenever it is called: once to count, once to place them.
  template <class LayOut>
  void place(TrainOps& ops, const LayOut& lay_out) {
    TensorRoom counted(nullptr);
    lay_out(counted);
    if (memory_ == nullptr || memory_->size() < counted.size()) {
      memory_.reset();  // before more is asked for
      memory_ = ops.allocate(counted.size());
    }
    TensorRoom placed(memory_->data());
    lay_out(placed);
  }

 private:
  std::unique_ptr<Buffer> memory_;
};

/// The rows of all parts to the rows of `to`, one part after the other.
inline void copy_parts(TrainOps& ops, const std::vector<Tensor>& parts, Tensor to) {
  for (const Tensor& part : parts) {
    ops.copy(part, to.narrow(part.rows));
    to = to.skip(part.rows);
  }
}

}  // namespace ashlar
