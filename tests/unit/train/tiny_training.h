// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs of the real trainer on a tiny target.

#include <filesystem>
#include <optional>
#include <string>

#include "train/run/drafter_training.h"
#include "train/run/train_run.h"
#include "unit/train/tiny_target.h"

namespace ashlar {

class DrafterTraining : public TinyTarget {
 protected:
  explicit DrafterTraining(const std::string& family = "qwen3", const std::string& head = "")
      : TinyTarget({}, 40, 40, family, head) {}

  TrainRun make(const std::filesystem::path& output, int64_t steps, const std::string& device = "cpu",
                MatrixOptimiser optimiser = MatrixOptimiser::kAdamW, std::optional<DistributionLoss> loss = {}) {
    TrainOptions options;
    options.output = output;
    options.steps = steps;
    options.batch_tokens = 130;
    options.max_length = 64;
    options.learning_rate = 3e-3;
    options.optimiser = optimiser;
    options.distribution = loss;
    return {*model_, documents_, trained(), options, drafter_training(*model_, device, {})};
  }
  virtual TrainedDrafter trained() const { return block_drafter(drafter_); }
};

}  // namespace ashlar
