// SPDX-License-Identifier: Apache-2.0
#include "model/mixers/gated_delta_net.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "model/mixers/conv_taps.h"

namespace ashlar {
namespace {

// Rows of a product that lie key head by key head, each with `sizes` rows of each kind: those of a kind together.
void add_by_kind(const WeightPart& stored, int32_t n_k_heads, const std::vector<int64_t>& sizes,
                 std::vector<WeightPart>& parts) {
  const int64_t head = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  int64_t first = 0;
  for (const int64_t size : sizes) {
    for (int32_t h = 0; h < n_k_heads; ++h) parts.push_back(stored.block(h * head + first, size, 0, stored.cols));
    first += size;
  }
}

// Answers lie as the rows of all that belongs to value heads do in the checkpoint, since columns of quantised weights,
// those of the last product, cannot be put in another order. Rows can.
DeltaShape delta_shape(const StackConfig& config) {
  DeltaShape shape = config.delta_net->shape;
  shape.outputs_by_turns = config.names.value_heads_by_turns;
  return shape;
}

// Rows [first, ...) of a product that belong to value heads, `size` to each: in the order of heads.
void add_heads(const WeightPart& stored, int64_t first, const DeltaShape& shape, int64_t size,
               std::vector<WeightPart>& parts) {
  if (first > 0) parts.push_back(stored.block(0, first, 0, stored.cols));
  for (int32_t h = 0; h < shape.n_v_heads; ++h) {
    parts.push_back(stored.block(first + shape.output_head(h) * size, size, 0, stored.cols));
  }
}

// The same of columns [first, ...) of a table in rows of `cols`.
std::vector<float> by_heads(std::vector<float> stored, int64_t cols, int64_t first, const DeltaShape& shape,
                            int64_t size) {
  if (!shape.outputs_by_turns) return stored;
  std::vector<float> values = stored;
  for (size_t row = 0; row < stored.size(); row += static_cast<size_t>(cols)) {
    const auto heads = static_cast<std::ptrdiff_t>(row) + first;
    for (int32_t h = 0; h < shape.n_v_heads; ++h) {
      std::copy_n(stored.begin() + heads + shape.output_head(h) * size, size, values.begin() + heads + h * size);
    }
  }
  return values;
}

std::unique_ptr<Weight> bind_inputs(WeightBinder& binder, const StackConfig& config, const std::string& base) {
  const LayerNames& names = config.names;
  const DeltaShape shape = delta_shape(config);
  const int64_t group = shape.v_heads_of_k(), values = group * shape.v_dim;
  const auto matrix = [&](const char* name, int64_t rows) {
    return binder.matrix(base + name + ".weight", rows, config.hidden);
  };
  std::vector<WeightPart> parts;
  const auto add = [&](const char* name, int64_t first, int64_t size) {
    const WeightPart stored = matrix(name, first + shape.n_v_heads * size);
    shape.outputs_by_turns ? add_heads(stored, first, shape, size, parts) : parts.push_back(stored);
  };
  if (names.fused_delta_qkvz != nullptr) {
    add_by_kind(matrix(names.fused_delta_qkvz, shape.channels() + shape.v_width()), shape.n_k_heads,
                {shape.k_dim, shape.k_dim, values, values}, parts);
  } else {
    add(names.delta_qkv, int64_t{2} * shape.k_width(), shape.v_dim);
    add(names.delta_z, 0, shape.v_dim);
  }
  if (names.fused_delta_ba != nullptr) {
    add_by_kind(matrix(names.fused_delta_ba, int64_t{2} * shape.n_v_heads), shape.n_k_heads, {group, group}, parts);
  } else {
    add(names.delta_b, 0, 1);
    add(names.delta_a, 0, 1);
  }
  return binder.linear(std::move(parts));
}

}  // namespace

GatedDeltaNet::GatedDeltaNet(WeightBinder& binder, const StackConfig& config, const std::string& base)
    : RecurrentMixer({delta_shape(config).projected_width(), delta_shape(config).v_width(),
                      delta_shape(config).state_floats(), delta_shape(config).log_floats()}),
      shape_(delta_shape(config)),
      norm_eps_(config.norm_eps) {
  const LayerNames& names = config.names;
  Ops& ops = binder.ops();
  const int32_t heads = shape_.n_v_heads;
  taps_ = {ops, by_heads(read_taps(binder, base + names.delta_taps + ".weight", shape_.channels(), shape_.taps),
                         shape_.channels(), int64_t{2} * shape_.k_width(), shape_, shape_.v_dim)};
  std::vector<float> decay = binder.vector(base + names.delta_decay, heads);
  for (float& value : decay) value = names.decay_is_factor ? value : -std::exp(value);
  decay_ = {ops, by_heads(std::move(decay), heads, 0, shape_, 1)};
  bias_ = {ops, by_heads(binder.vector(base + names.delta_bias, heads), heads, 0, shape_, 1)};
  norm_ = binder.norm(base + names.delta_norm, shape_.v_dim, false);
  bind(bind_inputs(binder, config, base),
       binder.linear({{base + names.delta_output, config.hidden}}, shape_.v_width(), false));
}

void GatedDeltaNet::step(Ops& ops, Tensor projected, const Rows& rows, const StatePlane& states, Tensor mixed) const {
  const DeltaWeights weights = {taps_.data(), decay_.data(), bias_.data(), norm_.data(), norm_eps_};
  ops.gated_delta_net(projected, {shape_, weights, rows, states}, mixed);
}

}  // namespace ashlar
