// SPDX-License-Identifier: Apache-2.0
#pragma once
// GGUF files: metadata and tensors in one file or in shards. Source: ggml's docs/gguf.md. Versions 2 and 3.

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/json.h"
#include "io/mapped_file.h"
#include "io/weights/gguf_types.h"
#include "io/weights/stored_tensor.h"

namespace ashlar {

/// Whether a path is meant as one of these: by its name, where that is not a folder's.
bool is_gguf(const std::filesystem::path& path);

/// One file.
class GgufFile {
 public:
  /// Maps the file and checks all of it but the tensors' numbers: every count, length, type and offset against what is
  /// there, before anything of that size is made; names and keys are there once, tensors lie in the file, aligned, and
  /// do not overlap. Throws Error("gguf", ...) naming the file, the key or tensor, found and expected.
  explicit GgufFile(const std::filesystem::path& path);

  /// The metadata that are no arrays, by key: numbers, booleans and texts, in the file's order.
  const Json& metadata() const { return metadata_; }
  bool has_array(const std::string& key) const { return arrays_.contains(key); }
  /// The texts of an array, views of the file. Throws Error where `key` is none.
  std::vector<std::string_view> strings(const std::string& key) const;
  /// The same of integers of any width; of 64 bits those that int64 holds.
  std::vector<int64_t> integers(const std::string& key) const;
  /// The same of booleans, of which every byte but 0 is true.
  std::vector<bool> booleans(const std::string& key) const;
  /// The same of F32 numbers, of any value.
  std::vector<float> floats(const std::string& key) const;

  /// By name. Dimensions are in the order of StoredTensor, which is the reverse of the file's.
  const std::map<std::string, StoredTensor>& tensors() const { return tensors_; }
  const std::filesystem::path& path() const { return file_.path(); }
  /// As MappedFile::check_whole().
  void check_whole() const { file_.check_whole(); }

 private:
  class Reader;
  struct Array {
    GgufType type;
    uint64_t count;
    std::span<const std::byte> bytes;  // of the values
  };
  const Array& array(const std::string& key, const char* expected) const;

  MappedFile file_;
  Json metadata_ = Json::object();
  std::map<std::string, Array> arrays_;
  std::map<std::string, StoredTensor> tensors_;
};

/// The shard of that number (from 1) of the files that `path` is one of: NAME-00003-of-00012.gguf. Empty: it is a whole
/// file by its name.
std::filesystem::path gguf_shard(const std::filesystem::path& path, int64_t number);

/// A model: one file, or all shards that the named one belongs to.
class GgufModel {
 public:
  /// Throws Error("gguf", ...) also if a shard is missing or does not fit the others.
  explicit GgufModel(const std::filesystem::path& path);
  const std::vector<GgufFile>& files() const { return files_; }

 private:
  std::vector<GgufFile> files_;
};

/// The file that holds the metadata of a model: the first shard, or the file itself.
GgufFile open_gguf_metadata(const std::filesystem::path& path);

}  // namespace ashlar
