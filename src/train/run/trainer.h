#pragma once
// What a training run needs of that which trains: steps over documents, and the numbers they change.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "model/drafters/dflash_config.h"
#include "train/run/train_options.h"
#include "train/run/train_state.h"

namespace ashlar {

/// One document with what the target computed of it.
struct TrainDocument {
  std::vector<int32_t> ids;
  std::vector<uint8_t> supervised;  ///< one for each id
  std::vector<float> aux_hidden;    ///< [ids, auxiliary layers * target's hidden size]
};

struct TrainReport {
  double loss = 0;
  double gradient_norm = 0;
  int64_t blocks = 0;
  std::vector<double> position_accuracy;  ///< by drafted position
  double expected_acceptance = 0;
  bool skipped = false;
};

class Trainer {
 public:
  virtual ~Trainer() = default;
  /// One step of the optimiser on these documents, or none where loss or gradient is no number.
  virtual TrainReport step(std::span<const TrainDocument> documents) = 0;
  /// What a step would report of its loss, with the weights as they are.
  virtual TrainReport evaluate(std::span<const TrainDocument> documents) = 0;
  /// Every trained tensor, the same ones in the same order each time. What is written to them is what is trained.
  virtual std::vector<TrainedTensor> tensors() = 0;
  /// Steps so far, on which schedule and noise depend.
  virtual void set_steps_done(int64_t steps) = 0;
};

/// Makes the trainer of a drafter for a target. `options.steps` is the length of the schedule.
using MakeTrainer = std::function<std::unique_ptr<Trainer>(const DflashConfig& drafter, const TrainOptions& options)>;

}  // namespace ashlar
