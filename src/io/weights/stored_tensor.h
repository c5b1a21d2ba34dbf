// SPDX-License-Identifier: Apache-2.0
#pragma once
// A tensor as a file holds it.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/scaled_matrix.h"

namespace ashlar {

/// One tensor of a file. `data` lives as long as the file's reader that it came from.
struct StoredTensor {
  std::string name;
  std::string dtype;           ///< as the format calls it: "F32", "BF16", "I64", "Q4_1", ...
  std::vector<int64_t> shape;  ///< numbers that differ in the last dimension alone are adjacent
  const std::byte* data = nullptr;
  size_t bytes = 0;
  std::string file;
  /// Of numbers with scales (quantised.h): where both lie, rows of all leading dimensions together. `dtype` and `shape`
  /// are those of what they mean, `data` is that of the numbers, `bytes` counts all.
  std::optional<ScaledMatrix> scaled;
  bool optional = false;  ///< says nothing, so that a model may do without it

  std::string describe() const;  ///< "F32 [2, 3]"
};

std::string describe_shape(const std::vector<int64_t>& shape);

}  // namespace ashlar
