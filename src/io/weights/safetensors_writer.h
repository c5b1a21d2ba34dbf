// SPDX-License-Identifier: Apache-2.0
#pragma once
// Writes the safetensors container (io/weights/safetensors.h).

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace ashlar {

/// Numbers to write under a name: those that are there, or those that come as they are written.
struct TensorToWrite {
  enum class Type : uint8_t { kF32, kBF16, kI64, kBool };

  std::string name;
  std::vector<int64_t> shape;
  std::span<const float> values;  ///< as many as the shape says, or none
  Type type = Type::kF32;         ///< kBF16 rounds to nearest even
  /// Without values: sets `rows` rows, of as many numbers as the shape's last size, from row `first` on. Called for all
  /// rows in their order, some at a time, so that a large tensor is never in memory as a whole.
  std::function<void(int64_t first, int64_t rows, float* to)> fill = {};
  std::span<const int64_t> integers = {};  ///< of kI64, in place of values; of kBool: 0 or 1 each
};

/// What stands in a file before the numbers of its tensors: the header and its length. `path` is for messages. Throws
/// Error("safetensors", ...) where two tensors have one name.
std::string safetensors_head(const std::filesystem::path& path, std::span<const TensorToWrite> tensors,
                             const std::map<std::string, std::string>& metadata = {});

/// Replaces the file at once, when all is on the disk (DurableFile). Tensors are written in their order, each at a
/// multiple of 8 bytes where the sizes of those before allow it. Throws Error("file", ...) if the disk is full or the
/// like, Error("safetensors", ...) where two tensors have one name.
void write_safetensors(const std::filesystem::path& path, std::span<const TensorToWrite> tensors,
                       const std::map<std::string, std::string>& metadata = {});

/// The same with a hash of the numbers and of the metadata in the metadata, by which damage is found
/// (io/weights/hashed_file.h). Every `fill` is called twice for all rows.
void write_hashed_safetensors(const std::filesystem::path& path, std::span<const TensorToWrite> tensors,
                              std::map<std::string, std::string> metadata = {});

}  // namespace ashlar
