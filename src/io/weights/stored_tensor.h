#pragma once
// A tensor as a file holds it.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ashlar {

/// One tensor of a file. `data` lives as long as the file's reader that it came from.
struct StoredTensor {
  std::string name;
  std::string dtype;           ///< as the format calls it: "F32", "BF16", "I64", "Q4_1", ...
  std::vector<int64_t> shape;  ///< numbers that differ in the last dimension alone are adjacent
  const std::byte* data = nullptr;
  size_t bytes = 0;
  std::string file;

  std::string describe() const;  ///< "F32 [2, 3]"
};

std::string describe_shape(const std::vector<int64_t>& shape);

}  // namespace ashlar
