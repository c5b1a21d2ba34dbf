// SPDX-License-Identifier: Apache-2.0
#pragma once
// A training run: documents in an order of its own, their hidden states as they are needed, a step, a line of the log,
// and now and then a checkpoint.

#include <array>
#include <functional>
#include <memory>
#include <vector>

#include "train/data/batch_order.h"
#include "train/data/document_set.h"
#include "train/log/train_log.h"
#include "train/replicas/replica.h"
#include "train/replicas/replica_threads.h"
#include "train/run/train_state.h"

namespace ashlar {

/// What is known after a step.
struct StepFigures {
  int64_t step = 0;   ///< from 1
  int64_t steps = 0;  ///< of the run
  int64_t epoch = 0;  ///< from 0
  TrainReport report;
  int64_t tokens = 0;   ///< of the step's documents
  double seconds = 0;   ///< that the step took, the capture included
  int64_t skipped = 0;  ///< steps so far whose loss or gradient was no number
};

class TrainListener {
 public:
  virtual ~TrainListener() = default;
  virtual void on_step(const StepFigures&) {}
  virtual void on_checkpoint(int64_t /*step*/) {}
  /// Of something that the run goes on without.
  virtual void on_warning(const std::string& /*what*/) {}
};

/// What verify steps over a known answer would yield.
struct SteppedAcceptance {
  int64_t steps = 0;
  int64_t tokens = 0;
  int64_t first_accepted = 0;        ///< steps whose first draft is right
  std::vector<int64_t> accepted_at;  ///< steps whose draft 1, 2, ... and all before it are right

  double length() const { return steps > 0 ? static_cast<double>(tokens) / static_cast<double>(steps) : 0.0; }
  /// accepted_at as shares of all steps; 0 where there are none.
  std::vector<double> by_position() const {
    std::vector<double> shares;
    for (const int64_t n : accepted_at) {
      shares.push_back(steps > 0 ? static_cast<double>(n) / static_cast<double>(steps) : 0.0);
    }
    return shares;
  }
  double first_rate() const {
    return steps > 0 ? static_cast<double>(first_accepted) / static_cast<double>(steps) : 0.0;
  }
};

/// Bytes, for people to plan with.
struct TrainMemory {
  int64_t parameters = 0;  ///< how many
  int64_t training = 0;    ///< weights, gradients and moments
  int64_t step = 0;        ///< activations of a step
  int64_t hidden = 0;      ///< hidden states of the largest batch
  int64_t capture = 0;     ///< the target's pages and rows
};

class TrainRun {
 public:
  static constexpr const char* kState = "train-state.safetensors";
  static constexpr const char* kLog = "train-log.jsonl";
  static constexpr const char* kSettings = "train.json";
  static constexpr const char* kAsked = "train.toml";        ///< the command's flags, as a file for --config
  static constexpr const char* kRecord = "acceptance.json";  ///< of the drafter, as served
  /// All that is written into the output folder.
  static constexpr std::array kFiles = {kState, kSettings, kLog,          TrainLog::kEvents,
                                        kAsked, kRecord,   "config.json", "model.safetensors"};

  /// Whether a checkpoint of a run is in the folder.
  static bool has_state(const std::filesystem::path& output);
  /// How many steps the run that the folder is of was to have: by its state, or what it began with.
  static int64_t planned_steps(const std::filesystem::path& output);
  /// What that run's products multiply, whatever device goes on with it.
  static DType compute_of(const std::filesystem::path& output);

  /// `model` and `documents` outlive this. No engine of the model may run while this computes. Throws
  /// Error("train", ...) if these do not go together.
  TrainRun(Model& model, const DocumentSet& documents, const TrainedDrafter& drafter, const TrainOptions& options,
           const MakeTrainer& make_trainer);
  /// The same over several devices, options.gpus of them, which each compute a part of every step. What is evaluated
  /// and written is the first one's.
  TrainRun(std::span<const TrainPlace> places, const DocumentSet& documents, const TrainedDrafter& drafter,
           const TrainOptions& options);

  /// Starts from a drafter's weights, with new moments; with those of its backbone alone where it has no head. Throws
  /// Error("train", ...) where it has others than these, or an embedding or a head that is not the target's.
  void start_from(const std::filesystem::path& folder);
  /// Goes on from the output folder's state, to the bit where hidden states are those of this device. Where a run was
  /// killed before it had one this changes nothing, and the run begins anew, from the same drafter. Throws
  /// Error("train", ...) naming a setting that differs.
  void resume();

  /// Steps until the end, or until `stop` says so between two of them, with a line of the log for each; the last
  /// checkpoint is written in either case. Returns whether the end was reached. Throws Error("train", ...) after ten
  /// steps in a row whose loss or gradient was no number.
  bool run(TrainListener& listener, const std::function<bool()>& stop);
  /// One step, without log and checkpoint.
  StepFigures step();
  /// The next step is as after that many: on its batch, at its learning rate, with whatever weights there are.
  void go_to(int64_t steps_done);
  /// Writes drafter and state. Throws Error("train", ...) if the replicas of the trainer have not the same weights and
  /// moments, to the bit, as GPUs that are not alike may come to.
  void save();

  /// Teacher-forced on documents; as many at a time as a step has.
  TrainReport evaluate(std::span<const EncodedDocument> documents);

  /// Goes through the learnt end of each document in the steps of serving: a block begins where the one before was
  /// wrong. On answers that the target gave at temperature 0 this is what serving yields, up to rounding.
  SteppedAcceptance evaluate_in_steps(std::span<const EncodedDocument> documents);

  int64_t steps_done() const { return progress_.step; }
  int64_t steps() const { return options_.steps; }
  /// Of every device's trainer, which are the same.
  std::span<const TrainParameter> parameters(int32_t replica = 0) const {
    return replicas_[static_cast<size_t>(replica)]->trainer().parameters();
  }
  /// Of the first device.
  TrainMemory memory() const;

 private:
  Replica& first() const { return *replicas_.front(); }
  TrainReport step_of_all(std::span<const EncodedView> documents);
  void check_replicas() const;
  void write_drafter();
  bool save_is_due(int64_t saved_step, int64_t saved_ns) const;

  const Model& target_;
  const DocumentSet& documents_;
  TrainedDrafter drafter_;
  TrainOptions options_;
  std::vector<size_t> training_;  // indices of documents_
  std::unique_ptr<BatchOrder> order_;
  std::vector<std::unique_ptr<Replica>> replicas_;
  std::unique_ptr<ReplicaThreads> threads_;
  TrainProgress progress_;
  int64_t skipped_in_a_row_ = 0;
  bool drafter_is_older_ = false;  // the folder's may be
};

}  // namespace ashlar
