// SPDX-License-Identifier: Apache-2.0
#pragma once
// A folder of hidden states: hs_N.safetensors for document N of the data, as many as there are so far.

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "device/ops.h"
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
  /// Throws as HiddenFile does.
  HiddenFile open(size_t document, std::span<const int32_t> ids) const { return {path_of(document), ids, layout_}; }

 private:
  std::filesystem::path folder_;
  HiddenLayout layout_;
};

/// A document that a store has.
struct StoredDocument {
  size_t document = 0;  ///< its number
  std::span<const int32_t> ids;
};

/// Stored hidden states in a device's memory, as HiddenCapture has those that it computes.
class StoredHidden {
 public:
  StoredHidden(Ops& ops, HiddenStore store) : ops_(ops), store_(std::move(store)) {}

  const HiddenStore& store() const { return store_; }
  /// Of each document, [ids, layout.width()] in the device's type of activations, until the next call. Returns when
  /// they are there for whatever uses the device. Throws as HiddenFile does.
  std::span<const Tensor> load(std::span<const StoredDocument> documents);
  /// Of each document of the last call, [ids, hidden], if the layout has it.
  std::span<const Tensor> final_hidden() const { return finals_; }

 private:
  using Read = void (HiddenFile::*)(DType type, std::byte* to) const;
  Tensor place(const HiddenFile& file, Read read, int32_t rows, int32_t cols, std::byte*& to);

  Ops& ops_;
  HiddenStore store_;
  std::unique_ptr<Buffer> storage_;  // of the documents of a call, one after another; grows
  std::vector<std::byte> staging_;
  std::vector<Tensor> documents_, finals_;
};

}  // namespace ashlar
