// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tiny checkpoints whose weights are noise: computed from a seed, not stored. tools/goldens/seeded_weights.py states
// the formula and writes the same bytes for the Python packages that make the goldens.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "io/json.h"

namespace ashlar::testing {

uint64_t fnv1a64(std::span<const std::byte> bytes);

/// The bytes of one tensor of tensors.json as a safetensors file holds them.
std::string seeded_bytes(const Json& tensor, uint64_t seed);

/// A model folder in a temporary place that lives as long as this: the files of `description` and the safetensors files
/// that its tensors.json describes. A folder without tensors.json is used as it is.
class SeededCheckpoint {
 public:
  explicit SeededCheckpoint(const std::filesystem::path& description);
  ~SeededCheckpoint();
  SeededCheckpoint(const SeededCheckpoint&) = delete;
  SeededCheckpoint& operator=(const SeededCheckpoint&) = delete;

  const std::filesystem::path& folder() const { return folder_; }

 private:
  std::filesystem::path folder_;
  bool temporary_ = false;
};

}  // namespace ashlar::testing
