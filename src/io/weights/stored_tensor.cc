// SPDX-License-Identifier: Apache-2.0
#include "io/weights/stored_tensor.h"

namespace ashlar {

std::string describe_shape(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + "]";
}

std::string StoredTensor::describe() const { return dtype + " " + describe_shape(shape); }

}  // namespace ashlar
