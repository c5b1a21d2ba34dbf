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
  settings.total_steps = options.steps;
  settings.max_anchors = options.max_anchors;
  settings.distribution = options.distribution;
  settings.weights = options.weights;
  settings.matrices = options.optimiser;
  settings.selector_weight = options.selector_weight;
  settings.seed = options.seed;
  return settings;
}

class DflashTrainer final : public Trainer {
 public:
  DflashTrainer(const Model& target, std::unique_ptr<TrainOps> ops, const DflashConfig& drafter,
                const TrainOptions& options, AllReduce* replicas)
      : ops_(std::move(ops)) {
    const ModelConfig& config = target.config();
    if (options.distribution && config.logit_softcap != 0.0F) {
      throw Error("train", config.folder.string() +
                               " caps its logits, so its distributions are not learnt here; expected "
                               "--loss ce");
    }
    TrainShape shape = train_shape(drafter);
    shape.target_multiplier = config.logit_scale;
    const Checkpoint checkpoint(config.folder);
    WeightBinder binder(target.ops(), checkpoint);
    const std::vector<float> embedding = decoded(binder, config.names.embedding, config);
    std::vector<float> own_head;
    if (!config.tied_head) own_head = decoded(binder, config.names.head, config);
    checkpoint.check_whole();
    trainer_ = std::make_unique<DrafterTrainer>(*ops_, shape, train_settings(*ops_, options), embedding,
                                                config.tied_head ? embedding : own_head, replicas);
    trainer_->initialise(options.seed);
  }

  TrainReport step(std::span<const TrainDocument> documents) override { return trainer_->step(documents); }
  TrainReport evaluate(std::span<const TrainDocument> documents) override { return trainer_->evaluate(documents); }
  int32_t accepted(const TrainDocument& document, int32_t anchor) override {
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

TrainShape train_shape(const DflashConfig& drafter) {
  const LayerAttention& layer = drafter.stack.layers.front();
  TrainShape shape;
  shape.hidden = drafter.stack.hidden;
  shape.layers = drafter.stack.n_layers;
  shape.heads = layer.shape.n_heads;
  shape.kv_heads = layer.shape.n_kv_heads;
  shape.head_dim = layer.shape.head_dim;
  shape.intermediate = drafter.stack.intermediate;
  shape.aux_width = static_cast<int32_t>(drafter.aux_layers.size()) * drafter.target_hidden;
  shape.vocab = drafter.vocab;
  shape.block = drafter.block_size;
  shape.eps = drafter.stack.norm_eps;
  shape.rope_theta = layer.rope.theta;
  shape.mask_token_id = drafter.mask_id;
  if (const auto& conv = drafter.stack.block_conv) shape.convolutions = {conv->taps, conv->group};
  if (const auto& selector = drafter.selector) shape.selector = {selector->rank, selector->top_k};
  return shape;
}

MakeTrainer drafter_training(const Model& target, const std::string& device, const DeviceOptions& options,
                             AllReduce* replicas) {
  return [&target, device, options, replicas](const DflashConfig& drafter, const TrainOptions& asked) {
    return std::make_unique<DflashTrainer>(target, make_train_ops(device, options), drafter, asked, replicas);
  };
}

}  // namespace ashlar
