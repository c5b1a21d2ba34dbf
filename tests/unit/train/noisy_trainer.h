// SPDX-License-Identifier: Apache-2.0
#pragma once
// A trainer that computes nothing sensible, but all that it does depends on every bit of what it is given; and runs of
// it over a tiny target.

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "train/run/train_run.h"
#include "unit/train/tiny_target.h"

namespace ashlar {

// A tensor of z-lab's names for a drafter of this form.
inline std::vector<std::pair<std::string, std::vector<int64_t>>> tensors_of(const TrainShape& drafter) {
  const int64_t hidden = drafter.hidden, wide = drafter.intermediate;
  const int64_t q_width = int64_t{drafter.heads} * drafter.head_dim,
                kv_width = int64_t{drafter.kv_heads} * drafter.head_dim;
  std::vector<std::pair<std::string, std::vector<int64_t>>> out = {
      {"fc.weight", {hidden, drafter.aux_width}}, {"hidden_norm.weight", {hidden}}, {"norm.weight", {hidden}}};
  for (int32_t layer = 0; layer < drafter.layers; ++layer) {
    const std::string base = "layers." + std::to_string(layer) + ".";
    out.push_back({base + "input_layernorm.weight", {hidden}});
    out.push_back({base + "post_attention_layernorm.weight", {hidden}});
    out.push_back({base + "self_attn.q_proj.weight", {q_width, hidden}});
    out.push_back({base + "self_attn.k_proj.weight", {kv_width, hidden}});
    out.push_back({base + "self_attn.v_proj.weight", {kv_width, hidden}});
    out.push_back({base + "self_attn.o_proj.weight", {hidden, q_width}});
    out.push_back({base + "self_attn.q_norm.weight", {drafter.head_dim}});
    out.push_back({base + "self_attn.k_norm.weight", {drafter.head_dim}});
    out.push_back({base + "mlp.gate_proj.weight", {wide, hidden}});
    out.push_back({base + "mlp.up_proj.weight", {wide, hidden}});
    out.push_back({base + "mlp.down_proj.weight", {hidden, wide}});
  }
  return out;
}

// Adam of a "gradient" that is noise of the step and of all it is given.
class NoisyTrainer : public Trainer {
 public:
  NoisyTrainer(const TrainShape& drafter, const TrainOptions& options, std::function<bool(int64_t)> is_skipped)
      : is_skipped_(std::move(is_skipped)), compute_(options.compute.value_or(DType::kF32)) {
    std::mt19937 random(static_cast<uint32_t>(options.seed));
    std::normal_distribution<float> normal(0, 0.1F);
    for (const auto& [name, shape] : tensors_of(drafter)) {
      Array& array = arrays_.emplace_back();
      array.name = name;
      array.shape = shape;
      size_t n = 1;
      for (const int64_t size : shape) n *= static_cast<size_t>(size);
      array.values.resize(n);
      for (float& value : array.values) value = normal(random) + (shape.size() == 1 ? 1.0F : 0.0F);
      array.first.resize(n);
      array.second.resize(n);
    }
    for (Array& array : arrays_) {
      parameters_.push_back({array.name, array.shape, array.values, {}, array.first, array.second});
    }
  }

  TrainReport step(std::span<const TrainDocument> documents) override {
    TrainReport report = evaluate(documents);
    report.skipped = is_skipped_(steps_++);
    if (report.skipped) {
      report.loss = std::numeric_limits<double>::quiet_NaN();
      return report;
    }
    uint32_t seed = static_cast<uint32_t>(steps_);
    for (const TrainDocument& document : documents) {
      for (const int32_t id : document.ids) seed = seed * 31 + static_cast<uint32_t>(id);
      for (const uint8_t one : document.supervised) seed = seed * 31 + one;
      for (int32_t row = 0; row < document.aux_hidden.rows; ++row) {  // the device is the host's own
        for (int32_t i = 0; i < document.aux_hidden.cols; ++i) {
          seed = seed * 31 + std::bit_cast<uint32_t>(document.aux_hidden.row(row)[i]);
        }
      }
      if (document.final_hidden.data != nullptr) seed += std::bit_cast<uint32_t>(document.final_hidden.row(0)[0]);
    }
    std::mt19937 random(seed);
    for (Array& array : arrays_) {
      for (size_t i = 0; i < array.values.size(); ++i) {
        const float gradient = static_cast<float>(random()) * 0x1p-32F - 0.5F;
        array.first[i] = 0.9F * array.first[i] + 0.1F * gradient;
        array.second[i] = 0.99F * array.second[i] + 0.01F * gradient * gradient;
        array.values[i] -= 1e-3F * array.first[i] / (std::sqrt(array.second[i]) + 1e-8F);
      }
    }
    return report;
  }
  TrainReport evaluate(std::span<const TrainDocument> documents) override {
    TrainReport report;
    report.blocks = static_cast<int32_t>(documents.size());
    report.loss = 3.5;
    report.position_accuracy = {0.5, 0.25};
    report.expected_acceptance = 1.625;
    return report;
  }
  // By the anchor alone, so that a test can go through the steps by hand.
  int32_t accepted(const TrainDocument& document, int32_t anchor) override {
    return std::min(anchor % 3, static_cast<int32_t>(document.ids.size()) - 1 - anchor);
  }
  std::span<const TrainParameter> parameters() override { return parameters_; }
  DType compute() const override { return compute_; }
  int64_t step_bytes(int64_t tokens) const override { return tokens; }
  void set_steps_done(int64_t steps) override { steps_ = steps; }

 private:
  struct Array {
    std::string name;
    std::vector<int64_t> shape;
    std::vector<float> values, first, second;
  };
  std::vector<Array> arrays_;
  std::vector<TrainParameter> parameters_;
  std::function<bool(int64_t)> is_skipped_;
  DType compute_;
  int64_t steps_ = 0;
};

class TrainRunning : public TinyTarget {
 protected:
  // One thread: a fork has no others.
  TrainRunning() : TinyTarget(one_thread(), 10, 59) {}

  TrainOptions options(const std::filesystem::path& output, int64_t steps = 5) const {
    TrainOptions options;
    options.output = output;
    options.steps = steps;
    options.batch_tokens = 100;
    options.max_length = 64;
    options.checkpoint_every = 2;
    return options;
  }
  static MakeTrainer noisy(std::function<bool(int64_t)> is_skipped = [](int64_t) { return false; }) {
    return [is_skipped](const TrainedDrafter& drafter, const TrainOptions& options) {
      return std::make_unique<NoisyTrainer>(drafter.shape, options, is_skipped);
    };
  }
  TrainRun make(const TrainOptions& options, const MakeTrainer& trainer = noisy()) {
    return TrainRun(*model_, documents_, block_drafter(drafter_), options, trainer);
  }
};

inline const std::function<bool()> kNever = [] { return false; };

}  // namespace ashlar
