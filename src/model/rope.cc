// SPDX-License-Identifier: Apache-2.0
#include "model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/error.h"

namespace ashlar {
namespace {

void scale_llama3(const RopeConfig& rope, std::vector<double>& inverse) {
  const double low_wavelength = rope.original_max_positions / rope.low_freq_factor;
  const double high_wavelength = rope.original_max_positions / rope.high_freq_factor;
  for (double& frequency : inverse) {
    const double wavelength = 2 * std::numbers::pi / frequency;
    if (wavelength < high_wavelength) continue;
    if (wavelength > low_wavelength) {
      frequency /= rope.factor;
      continue;
    }
    const double smooth = (rope.original_max_positions / wavelength - rope.low_freq_factor) /
                          (rope.high_freq_factor - rope.low_freq_factor);
    frequency = (1 - smooth) * frequency / rope.factor + smooth * frequency;
  }
}

void scale_yarn(const RopeConfig& rope, int32_t rotary_dim, std::vector<double>& inverse) {
  const auto border = [&](double rotations) {
    return rotary_dim * std::log(rope.original_max_positions / (rotations * 2 * std::numbers::pi)) /
           (2 * std::log(rope.theta));
  };
  double low = border(rope.beta_fast);
  double high = border(rope.beta_slow);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, rotary_dim - 1.0);
  if (low == high) high += 0.001;
  for (size_t i = 0; i < inverse.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    inverse[i] = inverse[i] / rope.factor * ramp + inverse[i] * (1 - ramp);
  }
}

// Layers whose tables are no earlier layer's, and for each layer which of these it shares.
std::pair<std::vector<int32_t>, std::vector<size_t>> distinct_ropes(const StackConfig& stack) {
  std::vector<int32_t> first;
  std::vector<size_t> of_layer;
  for (int32_t layer = 0; layer < stack.n_layers; ++layer) {
    const auto same = [&](int32_t other) {
      return stack.layers[other].rope == stack.layers[layer].rope &&
             stack.layers[other].shape.head_dim == stack.layers[layer].shape.head_dim;
    };
    const auto found = std::find_if(first.begin(), first.end(), same);
    of_layer.push_back(static_cast<size_t>(found - first.begin()));
    if (found == first.end()) first.push_back(layer);
  }
  return {first, of_layer};
}

}  // namespace

void check_rope_size(const std::filesystem::path& folder, const StackConfig& stack, int32_t max_positions) {
  constexpr int64_t kLimit = int64_t{1} << 30;
  const int64_t row = Ropes::bytes_per_position(stack);
  if (row * max_positions <= kLimit) return;
  throw Error("config", folder.string() + ": sequences of " + std::to_string(max_positions) +
                            " tokens need a rotary table of " + std::to_string((row * max_positions) >> 20) +
                            " MiB; expected at most 1024 MiB (ask for a maximum length of " +
                            std::to_string(kLimit / row) + " or less)");
}

Rope::Rope(Ops& ops, const RopeConfig& config, int32_t head_dim, int32_t max_positions) {
  const int32_t rotary_dim = config.rotary_dim(head_dim);
  const int32_t half = rotary_dim / 2;
  std::vector<double> inverse(half);
  for (int32_t i = 0; i < half; ++i) inverse[i] = std::pow(config.theta, -2.0 * i / rotary_dim);
  double amplitude = 1.0;
  switch (config.scaling) {
    case RopeConfig::Scaling::kNone:
      break;
    case RopeConfig::Scaling::kLinear:
      for (double& frequency : inverse) frequency /= config.factor;
      break;
    case RopeConfig::Scaling::kProportional: {
      const auto turning = static_cast<int32_t>(std::floor(config.partial_rotary_factor * head_dim / 2));
      for (int32_t i = 0; i < half; ++i) inverse[i] = i < turning ? inverse[i] / config.factor : 0.0;
      break;
    }
    case RopeConfig::Scaling::kLlama3:
      scale_llama3(config, inverse);
      break;
    case RopeConfig::Scaling::kFactors:
      ASHLAR_CHECK_EQ(static_cast<int32_t>(config.factors.size()), half);
      for (int32_t i = 0; i < half; ++i) inverse[i] /= config.factors[i];
      if (config.attention_factor > 0) amplitude = config.attention_factor;
      break;
    case RopeConfig::Scaling::kYarn:
      scale_yarn(config, rotary_dim, inverse);
      amplitude = config.attention_factor > 0 ? config.attention_factor : 0.1 * std::log(config.factor) + 1.0;
      break;
  }
  const size_t cells = static_cast<size_t>(max_positions) * half;
  const bool grows = config.query_growth != 0;
  std::vector<float> table(2 * cells + (grows ? static_cast<size_t>(max_positions) : 0));
  float* const cos = table.data();
  float* const sin = cos + cells;
  for (int32_t p = 0; p < max_positions; ++p) {
    for (int32_t i = 0; i < half; ++i) {
      // The angle is rounded to float first, as the models were trained with float tables.
      const float angle = static_cast<float>(p) * static_cast<float>(inverse[i]);
      cos[static_cast<size_t>(p) * half + i] = static_cast<float>(std::cos(static_cast<double>(angle)) * amplitude);
      sin[static_cast<size_t>(p) * half + i] = static_cast<float>(std::sin(static_cast<double>(angle)) * amplitude);
    }
  }
  for (int32_t p = 0; grows && p < max_positions; ++p) {
    const double lengths = std::floor(p / config.original_max_positions);
    table[2 * cells + p] = static_cast<float>(1 + config.query_growth * std::log1p(lengths));
  }
  storage_ = ops.allocate(table.size() * sizeof(float));
  ops.upload(table.data(), storage_->data(), table.size() * sizeof(float));
  const auto* const stored = reinterpret_cast<const float*>(storage_->data());
  table_ = {stored, stored + cells, rotary_dim, max_positions, grows ? stored + 2 * cells : nullptr};
}

Ropes::Ropes(Ops& ops, const StackConfig& stack, int32_t max_positions) {
  auto [first, of_layer] = distinct_ropes(stack);
  for (const int32_t layer : first) {
    tables_.emplace_back(ops, stack.layers[layer].rope, stack.layers[layer].shape.head_dim, max_positions);
  }
  of_layer_ = std::move(of_layer);
}

int64_t Ropes::bytes_per_position(const StackConfig& stack) {
  int64_t floats = 0;
  for (const int32_t layer : distinct_ropes(stack).first) {
    const LayerAttention& attention = stack.layers[layer];
    floats += attention.rope.rotary_dim(attention.shape.head_dim) + (attention.rope.query_growth != 0 ? 1 : 0);
  }
  return floats * static_cast<int64_t>(sizeof(float));
}

}  // namespace ashlar
