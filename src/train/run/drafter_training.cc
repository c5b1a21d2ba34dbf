// SPDX-License-Identifier: Apache-2.0
#include "train/run/drafter_training.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace ashlar {
namespace {

std::vector<float> decoded(WeightBinder& binder, const std::string& name, const ModelConfig& config) {
  std::vector<float> values(static_cast<size_t>(config.vocab) * static_cast<size_t>(config.stack.hidden));
  decode_rows(binder.matrix(name + ".weight", config.vocab, config.stack.hidden), 0, config.vocab, values.data());
  return values;
}

/// The weight of the norm before the head.
std::vector<float> norm_of(const Model& target) {
  std::vector<float> weight(static_cast<size_t>(target.config().stack.hidden));
  target.ops().download(reinterpret_cast<const std::byte*>(target.norm_weight()), weight.data(),
                        weight.size() * sizeof(float));
  return weight;
}

DType compute_of(const TrainOps& ops, const TrainOptions& options) {
  const DType compute = options.compute.value_or(ops.takes(DType::kBF16) ? DType::kBF16 : DType::kF32);
  if (ops.takes(compute)) return compute;
  throw Error("train", "this device trains in f32 alone: leave --compute " + std::string(name_of(compute)) +
                           " out, or train with --device cuda");
}

TrainSettings train_settings(const TrainOps& ops, const TrainOptions& options) {
  TrainSettings settings;
  settings.compute = compute_of(ops, options);
  settings.learning_rate = options.learning_rate;
  settings.schedule = options.schedule;
  settings.total_steps = options.steps;
  settings.max_anchors = options.max_anchors;
  settings.distribution = options.distribution;
  settings.weights = options.weights;
  settings.matrices = options.optimiser;
  settings.selector_weight = options.selector_weight;
  settings.seed = options.seed;
  return settings;
}

class NetworkTrainer final : public Trainer {
 public:
  NetworkTrainer(const Model& target, std::unique_ptr<TrainOps> ops, const TrainedDrafter& drafter,
                 const TrainOptions& options, AllReduce* replicas)
      : ops_(std::move(ops)) {
    const ModelConfig& config = target.config();
    if (options.distribution && config.logit_softcap != 0.0F) {
      throw Error("train", config.folder.string() +
                               " caps its logits, so its distributions are not learnt here; expected "
                               "--loss ce");
    }
    if (options.selector_weight != TrainOptions{}.selector_weight && !drafter.shape.selector) {
      throw Error("train", "--selector-weight means nothing to a drafter without a selector (" + drafter.summary +
                               "); leave it out, here and in a --config file");
    }
    TrainShape shape = drafter.shape;
    shape.target_multiplier = config.logit_scale;
    if (shape.own_layer) shape.own_layer->target_norm = norm_of(target);
    const Checkpoint checkpoint(config.folder);
    WeightBinder binder(target.ops(), checkpoint);
    const std::vector<float> embedding = decoded(binder, config.names.embedding, config);
    std::vector<float> own_head;
    if (!config.tied_head) own_head = decoded(binder, config.names.head, config);
    checkpoint.check_whole();
    TrainSettings settings = train_settings(*ops_, options);
    settings.gamma = drafter.gamma;
    trainer_ = std::make_unique<DrafterTrainer>(
        *ops_, shape, settings, embedding, config.tied_head ? embedding : own_head, replicas, drafter.make_network);
    trainer_->initialise(options.seed);
  }

  TrainReport step(std::span<const TrainDocument> documents) override { return trainer_->step(documents); }
  TrainReport evaluate(std::span<const TrainDocument> documents) override { return trainer_->evaluate(documents); }
  int32_t accepted(const TrainDocument& document, int32_t anchor) override {
    if (anchor < trainer_->first_anchor()) return 0;
    const DrafterTrainer::Anchors anchors = {anchor};
    // Of one block the expectation is a count.
    return static_cast<int32_t>(std::lround(trainer_->evaluate({&document, 1}, {&anchors, 1}).expected_acceptance)) - 1;
  }
  std::span<const TrainParameter> parameters() override { return trainer_->parameters(); }
  DType compute() const override { return trainer_->settings().compute; }
  void set_steps_done(int64_t steps) override { trainer_->set_steps_done(steps); }
  int64_t step_bytes(int64_t tokens) const override { return static_cast<int64_t>(trainer_->step_bytes(tokens)); }

 private:
  std::unique_ptr<TrainOps> ops_;
  std::unique_ptr<DrafterTrainer> trainer_;
};

}  // namespace

MakeTrainer drafter_training(const Model& target, const std::string& device, const DeviceOptions& options,
                             AllReduce* replicas) {
  return [&target, device, options, replicas](const TrainedDrafter& drafter, const TrainOptions& asked) {
    return std::make_unique<NetworkTrainer>(target, make_train_ops(device, options), drafter, asked, replicas);
  };
}

}  // namespace ashlar
