// SPDX-License-Identifier: Apache-2.0
#include "model/mixers/gated_delta_net.h"

#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "model/mixers/conv_taps.h"

namespace ashlar {
namespace {

const DeltaShape& delta_shape(const StackConfig& config) { return config.delta_net->shape; }

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

std::unique_ptr<Weight> bind_inputs(WeightBinder& binder, const StackConfig& config, const std::string& base) {
  const LayerNames& names = config.names;
  const DeltaShape& shape = config.delta_net->shape;
  if (names.fused_delta_qkvz == nullptr) {
    return binder.linear({{base + names.delta_qkv, shape.channels()},
                          {base + names.delta_z, shape.v_width()},
                          {base + names.delta_b, shape.n_v_heads},
                          {base + names.delta_a, shape.n_v_heads}},
                         config.hidden, false);
  }
  const int64_t group = shape.v_heads_of_k(), values = group * shape.v_dim;
  std::vector<WeightPart> parts;
  add_by_kind(
      binder.matrix(base + names.fused_delta_qkvz + ".weight", shape.channels() + shape.v_width(), config.hidden),
      shape.n_k_heads, {shape.k_dim, shape.k_dim, values, values}, parts);
  add_by_kind(binder.matrix(base + names.fused_delta_ba + ".weight", int64_t{2} * shape.n_v_heads, config.hidden),
              shape.n_k_heads, {group, group}, parts);
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
  taps_ = {ops, read_taps(binder, base + names.delta_taps + ".weight", shape_.channels(), shape_.taps)};
  std::vector<float> decay = binder.vector(base + names.delta_decay, shape_.n_v_heads);
  for (float& value : decay) value = -std::exp(value);
  decay_ = {ops, decay};
  bias_ = binder.device_vector(base + names.delta_bias, shape_.n_v_heads);
  norm_ = binder.norm(base + names.delta_norm, shape_.v_dim, false);
  bind(bind_inputs(binder, config, base),
       binder.linear({{base + names.delta_output, config.hidden}}, shape_.v_width(), false));
}

void GatedDeltaNet::step(Ops& ops, Tensor projected, const Rows& rows, const StatePlane& states, Tensor mixed) const {
  const DeltaWeights weights = {taps_.data(), decay_.data(), bias_.data(), norm_.data(), norm_eps_};
  ops.gated_delta_net(projected, {shape_, weights, rows, states}, mixed);
}

}  // namespace ashlar
