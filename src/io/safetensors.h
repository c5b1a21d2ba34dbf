#pragma once
// The safetensors container: an 8-byte little-endian header length, a JSON header, then the tensors' bytes.
// Source: the format's public description (huggingface/safetensors).

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "io/mapped_file.h"

namespace ashlar {

/// One tensor of a file. `data` lives as long as the SafetensorsFile it came from.
struct StoredTensor {
  std::string name;
  std::string dtype;  ///< as written in the header: "F32", "BF16", "I64", ...
  std::vector<int64_t> shape;
  const std::byte* data = nullptr;
  size_t bytes = 0;
  std::string file;

  std::string describe() const;  ///< "F32 [2, 3]"
};

std::string describe_shape(const std::vector<int64_t>& shape);

class SafetensorsFile {
 public:
  /// Maps the file and checks its header completely: every tensor in bounds, sizes equal to shape times dtype, no
  /// overlap and no hole. Throws Error("safetensors", ...) naming the file, the tensor, found and expected.
  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::map<std::string, StoredTensor>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// As MappedFile::check_whole().
  void check_whole() const { file_.check_whole(); }

 private:
  MappedFile file_;
  std::map<std::string, StoredTensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace ashlar
