// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a training run needs of that which trains: steps over documents, and the numbers they change.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "train/drafter_trainer.h"
#include "train/run/train_options.h"
#include "train/run/trained_drafter.h"

namespace ashlar {

class Trainer {
 public:
  virtual ~Trainer() = default;
  /// One step of the optimiser on these documents, or none where loss or gradient is no number.
  virtual TrainReport step(std::span<const TrainDocument> documents) = 0;
  /// What a step would report of its loss, with the weights as they are.
  virtual TrainReport evaluate(std::span<const TrainDocument> documents) = 0;
  /// Of the block that begins with the document's token `anchor`: how many of its slots, from the first one on, have
  /// the document's tokens as the likeliest ones.
  virtual int32_t accepted(const TrainDocument& document, int32_t anchor) = 0;
  /// Every trained tensor, the same ones in the same order each time. What is written to them is what is trained.
  virtual std::span<const TrainParameter> parameters() = 0;
  /// Steps so far, on which schedule and noise depend.
  virtual void set_steps_done(int64_t steps) = 0;
  /// What its products multiply.
  virtual DType compute() const = 0;
  /// About the bytes that a step of documents of `tokens` tokens each needs besides parameters.
  virtual int64_t step_bytes(int64_t tokens) const = 0;
};

/// Makes the trainer of a drafter for a target. `options.steps` is the length of the schedule.
using MakeTrainer = std::function<std::unique_ptr<Trainer>(const TrainedDrafter& drafter, const TrainOptions& options)>;

}  // namespace ashlar
