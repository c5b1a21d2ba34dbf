// SPDX-License-Identifier: Apache-2.0
#pragma once
// The forms that drafters are written in, for engines that load them.

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "io/json.h"
#include "io/weights/safetensors_writer.h"
#include "model/drafters/dflash_config.h"
#include "model/model.h"

namespace ashlar {

enum class DrafterForm : uint8_t {
  kZlab,         ///< z-lab's: the trained tensors alone; embedding and head are the target's
  kSpeculators,  ///< vLLM's speculators: with the target's embedding and head, in bf16
};

/// The choices of --format.
struct NamedForm {
  const char* name;
  DrafterForm form;
};
inline constexpr NamedForm kDrafterForms[] = {{"z-lab", DrafterForm::kZlab},
                                              {"speculators", DrafterForm::kSpeculators}};

/// What a form has next to the trained tensors.
struct DrafterExport {
  Json config;                                      ///< of config.json
  std::vector<TensorToWrite> frozen;                ///< tensors of the target, read from its files as they are written
  std::vector<std::vector<int64_t>> integers = {};  ///< that tensors among them point to
};

/// Adds what a drafter with a vocabulary of its own has, as EAGLE-3 and speculators name it: lm_head, the rows of the
/// target's head for these of its tokens, which ascend; d2t, how far the token of each entry is off; t2d, which tokens
/// of the target are among them.
void add_draft_vocabulary(std::span<const int32_t> draft_ids, const Model& target, DrafterExport& out);

/// Of a drafter that check_trainable() accepts.
DrafterExport export_as(DrafterForm form, const DflashConfig& drafter, const Model& target);

/// A drafter that brings an embedding and a head of the target's sizes as one that takes them from the target, which is
/// how it is trained: check_vocabulary() says whether they are the same. Others come back as they are.
DflashConfig with_target_vocabulary(DflashConfig drafter, const ModelConfig& target);

/// Throws Error("train", ...) if the drafter's folder brings an embedding or a head that is not the target's, as it is
/// or rounded to bf16. `draft_ids`: the tokens that its head has, if not all.
void check_vocabulary(const std::filesystem::path& folder, const Model& target, std::span<const int32_t> draft_ids);

}  // namespace ashlar
