// SPDX-License-Identifier: Apache-2.0
#pragma once
// Access to golden values stored as safetensors and JSON.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "base/bf16.h"
#include "io/json.h"
#include "io/weights/safetensors.h"

namespace ashlar::testing {

inline std::filesystem::path data_folder() { return ASHLAR_TEST_DATA; }
inline std::filesystem::path models_folder() { return std::filesystem::path(ASHLAR_SOURCE_DIR) / "models"; }

/// Names of the folders in `folder`, sorted.
inline std::vector<std::string> subfolders(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// A tensor of floats or, where 2e-4 of a row's length are nothing to the test, of halves.
inline std::vector<float> floats(const SafetensorsFile& file, const std::string& name) {
  const StoredTensor& tensor = file.tensors().at(name);
  if (tensor.dtype == "F16") {
    std::vector<Float16> halves(tensor.bytes / sizeof(Float16));
    std::memcpy(halves.data(), tensor.data, tensor.bytes);
    std::vector<float> values(halves.size());
    std::transform(halves.begin(), halves.end(), values.begin(), [](Float16 half) { return to_float(half); });
    return values;
  }
  std::vector<float> values(tensor.bytes / sizeof(float));
  std::memcpy(values.data(), tensor.data, tensor.bytes);
  return values;
}

inline std::vector<int32_t> ints(const SafetensorsFile& file, const std::string& name) {
  const StoredTensor& tensor = file.tensors().at(name);
  std::vector<int32_t> values(tensor.bytes / sizeof(int32_t));
  std::memcpy(values.data(), tensor.data, tensor.bytes);
  return values;
}

/// |a - b| / |b| over n values, in the Euclidean norm.
inline double relative_error(const float* a, const float* b, size_t n) {
  double difference = 0;
  double norm = 0;
  for (size_t i = 0; i < n; ++i) {
    difference += (static_cast<double>(a[i]) - b[i]) * (static_cast<double>(a[i]) - b[i]);
    norm += static_cast<double>(b[i]) * b[i];
  }
  return std::sqrt(difference / norm);
}

}  // namespace ashlar::testing
