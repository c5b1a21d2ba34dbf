// SPDX-License-Identifier: Apache-2.0
#include "train/drafter/rotation_table.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace ashlar {

void RotationTable::reserve(int32_t max_position) {
  if (max_position <= max_position_) return;
  max_position_ = std::max(max_position, 2 * max_position_);
  const int32_t half = head_dim_ / 2;
  const size_t n = static_cast<size_t>(max_position_ + 1) * static_cast<size_t>(half);
  std::vector<float> table(2 * n);
  for (size_t i = 0; i < n; ++i) {
    const auto position = static_cast<float>(i / static_cast<size_t>(half));
    const auto pair = static_cast<double>(i % static_cast<size_t>(half));
    // The angle is rounded to float first, as when serving (model/rope.cc).
    const float angle = position * static_cast<float>(std::pow(theta_, -2 * pair / head_dim_));
    table[i] = static_cast<float>(std::cos(static_cast<double>(angle)));
    table[n + i] = static_cast<float>(std::sin(static_cast<double>(angle)));
  }
  memory_ = ops_.allocate(table.size() * sizeof(float));
  ops_.upload(table.data(), memory_->data(), table.size() * sizeof(float));
  cos_ = reinterpret_cast<const float*>(memory_->data());
  sin_ = cos_ + n;
}

}  // namespace ashlar
