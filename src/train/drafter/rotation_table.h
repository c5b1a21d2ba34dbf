// SPDX-License-Identifier: Apache-2.0
#pragma once
// Cosines and sines of a rotary embedding in a device's memory, for as many positions as were asked for.

#include <cstdint>
#include <memory>

#include "device/train_ops.h"

namespace ashlar {

class RotationTable {
 public:
  RotationTable(TrainOps& ops, int32_t head_dim, double theta) : ops_(ops), head_dim_(head_dim), theta_(theta) {}

  /// For positions up to `max_position`.
  void reserve(int32_t max_position);
  /// Of rows at these positions, which are in the device's memory.
  RowRotation at(const int32_t* positions) const { return {cos_, sin_, positions}; }

 private:
  TrainOps& ops_;
  int32_t head_dim_;
  double theta_;
  std::unique_ptr<Buffer> memory_;
  const float *cos_ = nullptr, *sin_ = nullptr;
  int32_t max_position_ = -1;
};

}  // namespace ashlar
