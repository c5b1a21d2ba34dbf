// SPDX-License-Identifier: Apache-2.0
#pragma once
// The kinds of drafters that `ashlar train` makes, by the names of --method: a row each.

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "train/run/drafter_design.h"
#include "train/run/trained_drafter.h"

namespace ashlar {

struct TrainMethod {
  const char* name;
  const char* what;  ///< for messages: "an EAGLE-3 head"
  /// Defaults of flags that differ, as TOML.
  const char* settings;
  /// Flags that mean nothing here.
  std::vector<std::string> foreign_flags;
  bool (*is_folder)(const std::filesystem::path& folder);
  /// Throws Error("train", ...) as design_drafter(). `mask_token`: finds the token of masked positions.
  TrainedDrafter (*design)(const ModelConfig& target, const DrafterWishes& wishes,
                           const std::function<int32_t()>& mask_token);
  /// Of a folder, with the head of `wishes` if they name one. Throws Error where it does not fit the target or has
  /// parts that are not trained.
  TrainedDrafter (*read)(const std::filesystem::path& folder, const ModelConfig& target, const DrafterWishes& wishes);
};

std::span<const TrainMethod> train_methods();

/// Null: there is none of the name.
const TrainMethod* find_train_method(const std::string& name);

}  // namespace ashlar
