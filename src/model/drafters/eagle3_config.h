// SPDX-License-Identifier: Apache-2.0
#pragma once
// Configuration of an EAGLE-3 drafter folder: as the method's authors and SpecForge write it, or in the speculators
// form; and of P-EAGLE, which is the same network with a mask.

#include <filesystem>
#include <vector>

#include "model/config.h"
#include "model/drafters/drafter_config.h"

namespace ashlar {

struct Eagle3Config {
  StackConfig stack;  ///< the first layer reads embeddings, too; the others are plain. `names` as checkpoints call them
  DrafterNames names;
  std::filesystem::path folder;  ///< or GGUF file
  /// Target layers after which hidden states are read, in the order of fc's columns; empty: the usual ones, which
  /// follow from how many the target has.
  std::vector<int32_t> aux_layers;
  LayerIds ids = {"eagle_aux_hidden_state_layer_ids", 1};  ///< how the file says which
  int32_t target_hidden = 0;
  int32_t vocab = 0;             ///< of the target
  int32_t draft_vocab = 0;       ///< of the head
  bool tied_head = false;        ///< without a head of its own, the embedding is the head; else the target's head is
  bool normed_residual = false;  ///< the residual is the feature after its norm
  bool normed_output = false;    ///< what is fed back has gone through the final norm
  bool norms_each = false;       ///< each hidden state has a norm before fc
  bool norms_all = false;        ///< they have one together
  int32_t mask_id = -1;          ///< P-EAGLE: the token at positions that are drafted in the same pass
  // Of a head that is trained here. Drafting does not depend on them.
  int32_t max_positions = 2048;  ///< as transformers takes it where a file says nothing
  int32_t block_size = 8;        ///< a token and its drafts in training; seven drafts are usual

  int32_t aux_width() const { return static_cast<int32_t>(aux_layers.size()) * target_hidden; }
};

/// True if the folder's config.json, or the GGUF file, says it is a drafter of this kind.
bool is_eagle3_folder(const std::filesystem::path& folder);

/// Throws Error("drafter", ...) if the file is not an EAGLE-3 drafter or asks for what is not supported.
Eagle3Config read_eagle3_config(const std::filesystem::path& folder);

/// Fills the usual layers in. Throws Error("drafter", ...) naming both folders if the drafter was not made for this
/// target.
void fit_to_target(Eagle3Config& drafter, const ModelConfig& target);

}  // namespace ashlar
