// SPDX-License-Identifier: Apache-2.0
#include "train/drafter/drafter_parameters.h"

#include <cmath>
#include <numbers>

#include "base/philox.h"

namespace ashlar {
namespace {

constexpr int64_t kAlignment = 16;  // floats: a cache line
constexpr double kDeviation = 0.02;

int64_t padded_size(int32_t rows, int32_t cols) {
  return (int64_t{rows} * cols + kAlignment - 1) / kAlignment * kAlignment;
}

/// FNV-1a of 32 bits.
uint32_t hash_of(const std::string& name) {
  uint32_t hash = 0x811C9DC5U;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x01000193U;
  return hash;
}

/// Standard normal values by Box and Muller's method.
void fill_normal(std::span<float> values, uint64_t seed, const std::string& name) {
  for (size_t i = 0; i < values.size(); i += 4) {
    const PhiloxBlock words = philox4x32({static_cast<uint32_t>(i), static_cast<uint32_t>(i >> 32), hash_of(name), 0},
                                         static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32));
    for (size_t pair = 0; pair < 4 && i + pair < values.size(); pair += 2) {
      const double radius = std::sqrt(-2 * std::log((words[pair] + 0.5) * 0x1p-32));
      const double angle = 2 * std::numbers::pi * words[pair + 1] * 0x1p-32;
      values[i + pair] = static_cast<float>(kDeviation * radius * std::cos(angle));
      if (i + pair + 1 < values.size()) {
        values[i + pair + 1] = static_cast<float>(kDeviation * radius * std::sin(angle));
      }
    }
  }
}

}  // namespace

/// fn(name, rows, cols, parameter) for each; rows 0: a vector of cols values.
template <class Fn>
void DrafterParameters::for_each(const TrainShape& shape, const Fn& fn) {
  const int32_t width = shape.heads * shape.head_dim;
  const int32_t kv_width = shape.kv_heads * shape.head_dim;
  fn("fc.weight", shape.hidden, shape.aux_width, fc);
  fn("hidden_norm.weight", 0, shape.hidden, hidden_norm);
  for (size_t i = 0; i < layers.size(); ++i) {
    DrafterLayerParameters& layer = layers[i];
    const std::string base = "layers." + std::to_string(i) + ".";
    fn(base + "input_layernorm.weight", 0, shape.hidden, layer.input_norm);
    fn(base + "self_attn.q_proj.weight", width, shape.hidden, layer.q);
    fn(base + "self_attn.k_proj.weight", kv_width, shape.hidden, layer.k);
    fn(base + "self_attn.v_proj.weight", kv_width, shape.hidden, layer.v);
    fn(base + "self_attn.o_proj.weight", shape.hidden, width, layer.o);
    fn(base + "self_attn.q_norm.weight", 0, shape.head_dim, layer.q_norm);
    fn(base + "self_attn.k_norm.weight", 0, shape.head_dim, layer.k_norm);
    fn(base + "post_attention_layernorm.weight", 0, shape.hidden, layer.mlp_norm);
    fn(base + "mlp.gate_proj.weight", shape.intermediate, shape.hidden, layer.gate);
    fn(base + "mlp.up_proj.weight", shape.intermediate, shape.hidden, layer.up);
    fn(base + "mlp.down_proj.weight", shape.hidden, shape.intermediate, layer.down);
  }
  fn("norm.weight", 0, shape.hidden, norm);
}

DrafterParameters::DrafterParameters(TrainOps& ops, const TrainShape& shape, DType factors)
    : layers(static_cast<size_t>(shape.layers)), ops_(ops) {
  for_each(shape, [&](const std::string& /*name*/, int32_t rows, int32_t cols, DrafterParameter& /*parameter*/) {
    size_ += padded_size(std::max(rows, 1), cols);
  });
  memory_ = ops.allocate_shared(sizeof(float) * static_cast<size_t>(size_) * kKinds);
  if (factors != DType::kF32) factors_ = ops.allocate(bytes_of(factors) * static_cast<size_t>(size_));
  int64_t at = 0;
  for_each(shape, [&](const std::string& name, int32_t rows, int32_t cols, DrafterParameter& parameter) {
    const int32_t height = std::max(rows, 1);
    const auto count = static_cast<size_t>(height) * static_cast<size_t>(cols);
    parameter.value = {values() + at, height, cols, cols};
    parameter.gradient = {gradients() + at, height, cols, cols};
    parameter.factor = parameter.value;
    if (factors_ != nullptr) {
      std::byte* const copy = factors_->data() + bytes_of(factors) * static_cast<size_t>(at);
      parameter.factor = {copy, height, cols, cols, factors};
    }
    std::vector<int64_t> dimensions = {cols};
    if (rows > 0) dimensions.insert(dimensions.begin(), rows);
    list_.push_back(
        {name, dimensions, {values() + at, count}, {gradients() + at, count}, {m() + at, count}, {v() + at, count}});
    at += padded_size(height, cols);
  });
  for (const TrainParameter& parameter : list_) {
    if (parameter.shape.size() == 1) std::fill(parameter.values.begin(), parameter.values.end(), 1.0F);
  }
}

void DrafterParameters::refresh_factors() {
  if (factors_ == nullptr) return;
  const auto rows = static_cast<int32_t>(size_ / kAlignment);
  constexpr auto kCols = static_cast<int32_t>(kAlignment);
  ops_.copy({values(), rows, kCols, kCols}, {factors_->data(), rows, kCols, kCols, fc.factor.dtype});
}

void DrafterParameters::initialise(uint64_t seed) {
  for (const TrainParameter& parameter : list_) {
    if (parameter.shape.size() == 1) {
      std::fill(parameter.values.begin(), parameter.values.end(), 1.0F);
    } else {
      fill_normal(parameter.values, seed, parameter.name);
    }
    std::fill(parameter.m.begin(), parameter.m.end(), 0.0F);
    std::fill(parameter.v.begin(), parameter.v.end(), 0.0F);
  }
}

}  // namespace ashlar
