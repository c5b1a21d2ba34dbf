// SPDX-License-Identifier: Apache-2.0
#pragma once
// A folder of hidden states: hs_N.safetensors for document N of the data, as many as there are so far.

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "model/model.h"
#include "train/capture/hidden_file.h"

namespace ashlar {

class HiddenStore {
 public:
  HiddenStore(std::filesystem::path folder, HiddenLayout layout)
      : folder_(std::move(folder)), layout_(std::move(layout)) {}

  const std::filesystem::path& folder() const { return folder_; }
  const HiddenLayout& layout() const { return layout_; }
  std::filesystem::path path_of(size_t document) const {
    return folder_ / ("hs_" + std::to_string(document) + ".safetensors");
  }
  bool has(size_t document) const;
  /// Removes what processes left that were killed while they wrote. This one may not be writing.
  void remove_abandoned() const;
  /// Throws as HiddenFile does.
  HiddenFile open(size_t document, std::span<const int32_t> ids) const { return {path_of(document), ids, layout_}; }

 private:
  std::filesystem::path folder_;
  HiddenLayout layout_;
};

/// A document whose hidden states are in a file.
struct StoredDocument {
  std::filesystem::path path;
  std::span<const int32_t> ids;
  /// False: what the head takes is made of the last layer's, as of files that others wrote.
  bool has_final = true;
};

/// Stored hidden states in a device's memory, as HiddenCapture has those that it computes.
class StoredHidden {
 public:
  StoredHidden(Model& model, HiddenLayout layout) : model_(model), layout_(std::move(layout)) {}

  /// Of each document, [ids, layout.width()] in the device's type of activations, until the next call. Returns when
  /// they are there for whatever uses the device. Throws as HiddenFile does, also for a damaged file, which is looked
  /// for when a path comes for the first time.
  std::span<const Tensor> load(std::span<const StoredDocument> documents);
  /// Of each document of the last call, [ids, hidden], if the layout has it.
  std::span<const Tensor> final_hidden() const { return finals_; }

 private:
  using Read = void (HiddenFile::*)(DType type, std::byte* to) const;
  Tensor place(const HiddenFile& file, Read read, int32_t rows, int32_t cols, std::byte*& to);

  Model& model_;
  HiddenLayout layout_;
  std::unique_ptr<Buffer> storage_;  // of the documents of a call, one after another; grows
  std::vector<std::byte> staging_;
  std::vector<Tensor> documents_, finals_;
  std::unordered_set<std::string> checked_;  // paths of files whose content was found whole
};

}  // namespace ashlar
