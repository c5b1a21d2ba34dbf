// SPDX-License-Identifier: Apache-2.0
#pragma once
// A model's folder with a layer to draft that lies in a folder of its own (tests/data/heads).

#include <filesystem>

#include "golden/golden_data.h"
#include "golden/seeded_checkpoint.h"
#include "temp_folder.h"

namespace ashlar::testing {

class HeadFolder {
 public:
  /// The folder of `target` with the tensors of `head` as its second file.
  HeadFolder(const std::filesystem::path& target, const std::filesystem::path& head) {
    const SeededCheckpoint model(target);
    const SeededCheckpoint layer(head);
    std::filesystem::copy(model.folder() / "config.json", folder_.path());
    std::filesystem::copy(model.folder() / "model.safetensors", folder_ / "model-00001-of-00002.safetensors");
    std::filesystem::copy(layer.folder() / "model.safetensors", folder_ / "model-00002-of-00002.safetensors");
  }
  const std::filesystem::path& path() const { return folder_.path(); }

 private:
  TempFolder folder_;
};

}  // namespace ashlar::testing
