// SPDX-License-Identifier: Apache-2.0
#pragma once
// A drafter of any kind as a training run knows it: what it reads of the target, what is trained of it, and the folder
// that it becomes. What makes one of a kind's own configuration stands with the kind: block_drafter.h, eagle3/, mtp/.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "io/json.h"
#include "model/config.h"
#include "train/drafter_trainer.h"
#include "train/export/drafter_form.h"

namespace ashlar {

struct TrainedDrafter {
  std::string summary;              ///< for the plan: "dflash, 2 layers"
  std::optional<int32_t> mask_id;   ///< of masked positions, if it has such
  std::filesystem::path start;      ///< a folder with first weights, where the caller names no other; empty: random
  std::vector<int32_t> aux_layers;  ///< of the target, in the order of fc's columns
  TrainShape shape;                 ///< but for what the target alone decides
  /// How many tokens it drafts, which the data choose where shape.draft_ids does not say it yet; 0: all.
  int32_t draft_vocab = 0;
  MakeNetwork make_network = nullptr;  ///< of that shape
  double gamma = 7;                    ///< of the decay of weights by position (TrainSettings)
  Json settings;                       ///< what decides a run besides its options: what resumes must have the same
  /// config.json in a form and what stands next to the trained tensors, of a drafter of this shape. Throws
  /// Error("train", ...) where drafters of the kind have no such form.
  std::function<DrafterExport(DrafterForm form, const Model& target, const TrainShape& shape)> exported;
};

/// What a drafter's layers say of its shape.
TrainShape shape_of(const StackConfig& stack);

}  // namespace ashlar
