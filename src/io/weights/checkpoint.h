// SPDX-License-Identifier: Apache-2.0
#pragma once
// The weights of a model: of a Hugging Face folder or of a GGUF file, in one file or in shards.

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/weights/gguf.h"
#include "io/weights/quantised/quantised.h"
#include "io/weights/safetensors.h"

namespace ashlar {

/// The files that Checkpoint(model) reads, which are not opened. Throws as it does where they cannot be known.
std::vector<std::filesystem::path> weight_files(const std::filesystem::path& model);

/// Tensors that no file holds: made as a model asks for them.
class TensorMaker {
 public:
  virtual ~TensorMaker() = default;
  /// The tensor of this name, which is asked for with this shape and dtype; empty: any that holds floats. What it
  /// refers to lives as long as this. Asked again, the same.
  virtual const StoredTensor& make(const std::string& name, const std::vector<int64_t>& shape,
                                   const std::string& dtype) = 0;
};

/// All tensors of a model by name. Holds the files mapped; tensors live as long as this does.
class Checkpoint {
 public:
  /// Of a path that is_gguf(): the file, or all shards that it is one of. Of a folder: model.safetensors, or else
  /// model.safetensors.index.json and the shards it names, or else all of model-00001-of-00002.safetensors and so on.
  /// The whole file comes first, as in transformers: an index next to it is left over from shards that were merged.
  /// Throws Error("gguf", ...), or Error("checkpoint", ...) if there is none of these, if a shard is missing or outside
  /// the folder, if index and shards disagree, or if shards without an index share a tensor. Tensors of a folder that
  /// is quantised are those that its tensors mean (read_quantised, whose errors it throws).
  explicit Checkpoint(const std::filesystem::path& model);
  /// Of a folder that has no files of weights: holds nothing, and is given what it is asked for.
  Checkpoint(std::filesystem::path folder, TensorMaker& maker) : folder_(std::move(folder)), maker_(&maker) {}

  /// The tensor that is there, or is made; null: there is none.
  const StoredTensor* find(const std::string& name, const std::vector<int64_t>& shape,
                           const std::string& dtype = "") const;
  /// Whether the numbers of tensors mean nothing, since they are not those of a file.
  bool is_made() const { return maker_ != nullptr; }
  const std::map<std::string, const StoredTensor*>& tensors() const { return tensors_; }
  /// The folder, or the GGUF file.
  const std::filesystem::path& folder() const { return folder_; }
  /// Of a GGUF file: what it holds besides; null: a folder.
  const GgufModel* gguf() const { return gguf_ ? &*gguf_ : nullptr; }
  /// How the folder is quantised, for people; empty: it is not.
  const std::string& quantisation() const { return quantised_.description; }
  /// Throws Error("file", ...) if one of the files was found cut short while its tensors were read.
  void check_whole() const;

 private:
  void open_gguf();
  /// `places`: what an index says of each tensor's file; null: there is no index.
  void open_files(const std::vector<std::filesystem::path>& paths,
                  const std::map<std::string, std::string>* places = nullptr);

  std::filesystem::path folder_;
  TensorMaker* maker_ = nullptr;  // null: tensors are those of files
  std::vector<SafetensorsFile> files_;
  std::optional<GgufModel> gguf_;
  Quantised quantised_;
  std::map<std::string, const StoredTensor*> tensors_;
};

}  // namespace ashlar
