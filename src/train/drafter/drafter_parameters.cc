// SPDX-License-Identifier: Apache-2.0
#include "train/drafter/drafter_parameters.h"

#include <cmath>
#include <functional>
#include <numbers>
#include <numeric>
#include <utility>

#include "base/philox.h"

namespace ashlar {
namespace {

constexpr int64_t kAlignment = 16;  // floats: a cache line
constexpr double kDeviation = 0.02;

int64_t padded_size(int64_t n) { return (n + kAlignment - 1) / kAlignment * kAlignment; }

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

struct DrafterParameters::Form {
  std::vector<int64_t> shape;  // rows of a tensor: all but the last
  Start start = Start::kNoise;
  bool is_table = false;
  bool is_of_head = false;

  int64_t cols() const { return shape.back(); }
  int64_t size() const { return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>()); }
};

/// fn(name, form, parameter) for each.
template <class Fn>
void DrafterParameters::for_each(const TrainShape& shape, const Fn& fn) {
  const auto matrix = [](int64_t rows, int64_t cols) { return Form{{rows, cols}}; };
  const auto norm_of = [](int64_t n) { return Form{{n}, Start::kOne}; };
  const auto of_head = [](std::vector<int64_t> dimensions, Start start, bool is_table = false) {
    return Form{std::move(dimensions), start, is_table, true};
  };
  const int32_t width = shape.heads * shape.head_dim;
  const int32_t kv_width = shape.kv_heads * shape.head_dim;
  const auto convolutions = [&](const std::string& name, ConvParameters& conv) {
    if (!shape.convolutions) return;
    fn(name + ".base_kernel", of_head({2, shape.convolutions->taps, shape.hidden}, Start::kIdentity), conv.base);
    fn(name + ".kernel_projection.weight", of_head({shape.dynamic_width(), shape.hidden}, Start::kZero), conv.kernel);
  };
  fn("fc.weight", matrix(shape.hidden, shape.aux_width), fc);
  fn("hidden_norm.weight", norm_of(shape.hidden), hidden_norm);
  for (size_t i = 0; i < layers.size(); ++i) {
    DrafterLayerParameters& layer = layers[i];
    const std::string base = "layers." + std::to_string(i) + ".";
    fn(base + "input_layernorm.weight", norm_of(shape.hidden), layer.input_norm);
    fn(base + "self_attn.q_proj.weight", matrix(width, shape.hidden), layer.q);
    fn(base + "self_attn.k_proj.weight", matrix(kv_width, shape.hidden), layer.k);
    fn(base + "self_attn.v_proj.weight", matrix(kv_width, shape.hidden), layer.v);
    fn(base + "self_attn.o_proj.weight", matrix(shape.hidden, width), layer.o);
    fn(base + "self_attn.q_norm.weight", norm_of(shape.head_dim), layer.q_norm);
    fn(base + "self_attn.k_norm.weight", norm_of(shape.head_dim), layer.k_norm);
    fn(base + "post_attention_layernorm.weight", norm_of(shape.hidden), layer.mlp_norm);
    fn(base + "mlp.gate_proj.weight", matrix(shape.intermediate, shape.hidden), layer.gate);
    fn(base + "mlp.up_proj.weight", matrix(shape.intermediate, shape.hidden), layer.up);
    fn(base + "mlp.down_proj.weight", matrix(shape.hidden, shape.intermediate), layer.down);
    convolutions(base + "attention_conv", layer.attention_conv);
    convolutions(base + "mlp_conv", layer.mlp_conv);
  }
  fn("norm.weight", norm_of(shape.hidden), norm);
  if (!shape.selector) return;
  const std::string base = "candidate_selector.";
  const int64_t rank = shape.selector->rank;
  fn(base + "hidden_projection.weight", of_head({rank, shape.hidden}, Start::kNoise), selector.projection);
  fn(base + "predecessor_codebook", of_head({shape.vocab, rank}, Start::kNoise, true), selector.predecessors);
  fn(base + "successor_codebook", of_head({shape.vocab, rank}, Start::kNoise, true), selector.successors);
}

DrafterParameters::DrafterParameters(TrainOps& ops, const TrainShape& shape, DType factors)
    : layers(static_cast<size_t>(shape.layers)), ops_(ops) {
  for_each(shape, [&](const std::string& /*name*/, const Form& form, DrafterParameter& /*parameter*/) {
    size_ += padded_size(form.size());
  });
  memory_ = ops.allocate_shared(sizeof(float) * static_cast<size_t>(size_) * kKinds);
  if (factors != DType::kF32) factors_ = ops.allocate(bytes_of(factors) * static_cast<size_t>(size_));
  int64_t at = 0;
  for_each(shape, [&](const std::string& name, const Form& form, DrafterParameter& parameter) {
    const auto count = static_cast<size_t>(form.size());
    const auto cols = static_cast<int32_t>(form.cols());
    const auto rows = static_cast<int32_t>(form.size() / cols);
    parameter.value = {values() + at, rows, cols, cols};
    parameter.gradient = {gradients() + at, rows, cols, cols};
    parameter.factor = parameter.value;
    if (factors_ != nullptr) {
      std::byte* const copy = factors_->data() + bytes_of(factors) * static_cast<size_t>(at);
      parameter.factor = {copy, rows, cols, cols, factors};
    }
    list_.push_back({name,
                     form.shape,
                     {values() + at, count},
                     {gradients() + at, count},
                     {m() + at, count},
                     {v() + at, count},
                     form.is_table,
                     form.is_of_head});
    starts_.push_back(form.start);
    at += padded_size(form.size());
  });
  for (size_t i = 0; i < list_.size(); ++i) {
    if (starts_[i] != Start::kNoise) start(i, 0);
  }
}

void DrafterParameters::start(size_t parameter, uint64_t seed) {
  const TrainParameter& p = list_[parameter];
  const Start form = starts_[parameter];
  if (form == Start::kNoise) return fill_normal(p.values, seed, p.name);
  std::fill(p.values.begin(), p.values.end(), form == Start::kOne ? 1.0F : 0.0F);
  if (form != Start::kIdentity) return;
  const auto n = static_cast<size_t>(p.shape[2]);
  const auto side = static_cast<size_t>(p.shape[1]) * n;
  for (size_t at = 0; at < p.values.size(); at += side) {
    std::fill_n(p.values.begin() + static_cast<ptrdiff_t>(at), n, 1.0F);
  }
}

void DrafterParameters::refresh_factors() {
  if (factors_ == nullptr) return;
  const auto rows = static_cast<int32_t>(size_ / kAlignment);
  constexpr auto kCols = static_cast<int32_t>(kAlignment);
  ops_.copy({values(), rows, kCols, kCols}, {factors_->data(), rows, kCols, kCols, fc.factor.dtype});
}

void DrafterParameters::initialise(uint64_t seed) {
  for (size_t i = 0; i < list_.size(); ++i) {
    start(i, seed);
    std::fill(list_[i].m.begin(), list_[i].m.end(), 0.0F);
    std::fill(list_[i].v.begin(), list_[i].v.end(), 0.0F);
  }
}

}  // namespace ashlar
