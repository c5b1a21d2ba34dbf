// SPDX-License-Identifier: Apache-2.0
#pragma once
// The target answers the prompts of the data itself, before a drafter is trained on its answers.

#include <filesystem>
#include <optional>
#include <vector>

#include "session/session.h"
#include "train/data/document_set.h"
#include "train/run/train_options.h"

namespace ashlar {

struct RegenerationOptions {
  bool wanted = false;
  /// Prompt i is answered at temperature i modulo their number. Drafters serve every temperature, and at 0 a small
  /// model often repeats itself, which teaches little.
  std::vector<double> temperatures = {0, 0.7, 0.85, 1};
  int32_t max_tokens = 512;  ///< of an answer
  int32_t batch = 64;        ///< answers at once

  static constexpr const char* kFile = "answers.jsonl";
};

struct RegeneratedData {
  std::filesystem::path path;
  std::vector<DataPart> parts;  ///< of it, one for each file of the data, with its weight
};

/// Answers what the output folder's kFile has no answers to yet. `longest`: of a document, what is longer is not
/// answered. Returns nothing if Ctrl-C or SIGTERM ended it: the same call goes on. Throws Error naming what cannot be
/// answered.
std::optional<RegeneratedData> regenerate(Session& session, const TrainOptions& train,
                                          const RegenerationOptions& options, int32_t longest);

}  // namespace ashlar
