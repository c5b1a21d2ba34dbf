// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which tensors a model asks for when it is loaded: names, shapes and types come from the loader itself.

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace ashlar {

struct AskedTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::string dtype;  ///< empty: any that holds floats

  int64_t count() const;  ///< numbers
};

/// What a model, with the layer that drafts if its family has one, and drafters of it ask for, in the order in which
/// they do.
struct AskedTensors {
  std::vector<AskedTensor> model;
  std::vector<std::vector<AskedTensor>> drafters;
};

/// Of the folder's config.json, and of those of drafters' folders. Throws what loading throws.
AskedTensors asked_tensors(const std::filesystem::path& model, std::span<const std::filesystem::path> drafters = {});

}  // namespace ashlar
