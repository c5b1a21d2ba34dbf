#include "model/mixers/gated_delta_net.h"

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
    : shape_(config.delta_net->shape), norm_eps_(config.norm_eps) {
  const LayerNames& names = config.names;
  Ops& ops = binder.ops();
  taps_ = {ops, read_taps(binder, base + names.delta_taps + ".weight", shape_.channels(), shape_.taps)};
  std::vector<float> decay = binder.vector(base + names.delta_decay, shape_.n_v_heads);
  for (float& value : decay) value = -std::exp(value);
  decay_ = {ops, decay};
  bias_ = binder.device_vector(base + names.delta_bias, shape_.n_v_heads);
  norm_ = binder.norm(base + names.delta_norm, shape_.v_dim, false);
  in_ = bind_inputs(binder, config, base);
  output_ = binder.linear({{base + names.delta_output, config.hidden}}, shape_.v_width(), false);
}

void GatedDeltaNet::register_state(KvLayout& layout, const std::string& name, Ops&) {
  constexpr auto kFloat = static_cast<int64_t>(sizeof(float));
  state_ = layout.add_state(name, kFloat * shape_.state_floats(), kFloat * shape_.log_floats());
}

Tensor GatedDeltaNet::mix(Ops& ops, const MixerCall& call) const {
  if (call.copy.rows > 0) ops.copy(call.in.x, call.copy);
  const Rows rows = call.batch.rows();
  const Tensor projected = call.workspace.projected.narrow(rows.n).columns(0, projected_width());
  const Tensor mixed = call.workspace.mixed.narrow(rows.n).columns(0, mixed_width());
  ops.linear(*in_, call.in, Store::kOverwrite, projected);
  const DeltaWeights weights = {taps_.data(), decay_.data(), bias_.data(), norm_.data(), norm_eps_};
  ops.gated_delta_net(projected, {shape_, weights, rows, call.memory.state(state_)}, mixed);
  return mixed;
}

void GatedDeltaNet::forward(Ops& ops, const MixerCall& call, Tensor x) const {
  ops.linear(*output_, mix(ops, call), Store::kAdd, x);
}

void GatedDeltaNet::forward_outputs(Ops& ops, const MixerCall& call, Tensor x) const {
  const Tensor mixed = mix(ops, call);
  if (x.rows == 0) return;
  const Tensor outputs = call.workspace.projected.narrow(x.rows).columns(0, mixed_width());
  ops.gather_rows(mixed, call.batch.outputs(), outputs);
  ops.linear(*output_, outputs, Store::kAdd, x);
}

}  // namespace ashlar
