// SPDX-License-Identifier: Apache-2.0
#pragma once
// The safetensors container: an 8-byte little-endian header length, a JSON header, then the tensors' bytes.
// Source: the format's public description (huggingface/safetensors).

#include <filesystem>
#include <map>
#include <string>

#include "io/mapped_file.h"
#include "io/weights/stored_tensor.h"

namespace ashlar {

class SafetensorsFile {
 public:
  /// Maps the file and checks its header completely: every tensor in bounds, sizes equal to shape times dtype, no
  /// overlap and no gap. Throws Error("safetensors", ...) naming the file, the tensor, found and expected.
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
