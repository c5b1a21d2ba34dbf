// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a person asks of a training run.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "train/capture/hidden_server.h"
#include "train/data/example.h"
#include "train/drafter_trainer.h"
#include "train/export/drafter_form.h"
#include "train/run/drafter_design.h"

namespace ashlar {

/// The choices of --loss, by the names that states of runs are written with.
struct NamedLoss {
  const char* name;
  std::optional<DistributionLoss> loss;
};
inline constexpr NamedLoss kLosses[] = {{"ce", std::nullopt},
                                        {"kl", DistributionLoss::kKl},
                                        {"tv", DistributionLoss::kTv},
                                        {"nla", DistributionLoss::kOverlap},
                                        {"lk", DistributionLoss::kLk}};

struct TrainOptions {
  std::string target;  ///< a mark of the target's weights (io/weights/weights_mark.h): a drafter belongs to one target
  std::vector<DataFile> data;
  std::filesystem::path output;
  DrafterWishes drafter;
  std::filesystem::path from;           ///< a drafter to start from; empty: random weights
  std::filesystem::path hidden_states;  ///< folder of the target's, for documents that it has; empty: none
  bool keeps_hidden_states = true;      ///< in that folder, of the data's documents that it lacks
  HiddenServerOptions hidden_server;    ///< that makes them instead of this process; no url: none
  int64_t steps = 0;                    ///< 0: by epochs
  double minutes = 0;                   ///< more than 0: as many steps as about that long has
  int64_t epochs = 3;
  // Many small steps of few blocks a document: on a CPU time is short, and blocks next to each other teach the same.
  int64_t batch_tokens = 1024;
  int32_t max_length = 2048;
  int32_t max_anchors = 16;  ///< blocks of a document in a step
  double learning_rate = 6e-4;
  LearningRateSchedule schedule = LearningRateSchedule::kCosine;  ///< after the warm-up, down to 0
  std::optional<DistributionLoss> distribution;  ///< of the target, to be learnt; none: the documents' tokens
  PositionWeights weights = PositionWeights::kDpace;
  double selector_weight = 1;  ///< of the loss of a head that chooses among candidates
  MatrixOptimiser optimiser = MatrixOptimiser::kAdamW;
  std::optional<DType> compute;  ///< of products; none: bf16 on devices that train in it, else fp32
  int32_t gpus = 1;              ///< devices that share the documents of a step, which are the same for any number
  uint64_t seed = 0;
  bool resume = false;
  DrafterForm form = DrafterForm::kZlab;
  int64_t checkpoint_every = 0;     ///< steps; 0: whenever five minutes have passed
  int32_t max_answer_tokens = 128;  ///< of an answer of the evaluation as served
};

}  // namespace ashlar
