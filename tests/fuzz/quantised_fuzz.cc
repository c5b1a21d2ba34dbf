// SPDX-License-Identifier: Apache-2.0
// Two bytes with a length, as many of a quantization_config, the rest a safetensors file: tensors whose every row can
// be read, or Error.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "base/error.h"
#include "fuzz/memory_file.h"
#include "io/weights/checkpoint.h"

namespace {

/// A folder whose files lie in memory.
struct Folder {
  Folder() {
    std::filesystem::remove_all(path);
    std::filesystem::create_directories(path);
    std::filesystem::create_symlink(config.path(), path / "config.json");
    std::filesystem::create_symlink(weights.path(), path / "model.safetensors");
  }
  ~Folder() { std::filesystem::remove_all(path); }

  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("ashlar-fuzz-" + std::to_string(::getpid()));
  const ashlar::MemoryFile config, weights;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Folder folder;
  if (size < 2) return 0;
  const size_t length = std::min<size_t>(data[0] + 256U * data[1], size - 2);
  const std::string config =
      R"({"quantization_config":)" + std::string(reinterpret_cast<const char*>(data) + 2, length) + "}";
  folder.config.fill(reinterpret_cast<const uint8_t*>(config.data()), config.size());
  folder.weights.fill(data + 2 + length, size - 2 - length);
  try {
    const ashlar::Checkpoint checkpoint(folder.path);
    for (const auto& [name, tensor] : checkpoint.tensors()) {
      if (!tensor->scaled) continue;
      const ashlar::ScaledMatrix& matrix = *tensor->scaled;
      std::vector<float> row(static_cast<size_t>(std::min<int64_t>(matrix.cols, 1 << 16)));
      const auto n = static_cast<int64_t>(row.size());
      for (const int64_t at : {int64_t{0}, matrix.rows / 2, matrix.rows - 1}) {
        matrix.decode(at, 0, n, row.data());
        matrix.decode(at, matrix.cols - n, n, row.data());
        if (matrix.cols <= n && matrix.rows <= n) matrix.is_finite(at);
      }
      if (matrix.cols <= n && matrix.rows <= 256) matrix.bits_in_groups_of_32();
    }
  } catch (const ashlar::Error&) {
  }
  return 0;
}
