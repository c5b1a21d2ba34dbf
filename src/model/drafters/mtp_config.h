// SPDX-License-Identifier: Apache-2.0
#pragma once
// Folders of a layer that predicts further tokens (MTP), apart from a model: tensors mtp.* under the names of Qwen's
// checkpoints, so that the layer can be put next to its model's, and a config.json that says what it is.

#include <filesystem>

#include "model/config.h"

namespace ashlar {

struct MtpFolderConfig {
  StackConfig stack;  ///< one layer of attention, whose queries and keys have norms
  std::filesystem::path folder;
  int32_t vocab = 0;  ///< of the target
  // Of a layer that is trained here. Drafting does not depend on them.
  int32_t max_positions = 0;
  int32_t block_size = 4;  ///< a token and its drafts in training
};

/// True if the folder's config.json says it is such a layer (mtp_config).
bool is_mtp_folder(const std::filesystem::path& folder);

/// Throws Error("drafter", ...) if the file is none of such a layer or asks for what is not supported.
MtpFolderConfig read_mtp_config(const std::filesystem::path& folder);

/// Throws Error("drafter", ...) naming both folders if the layer was not made for this target.
void check_fit(const MtpFolderConfig& layer, const ModelConfig& target);

}  // namespace ashlar
