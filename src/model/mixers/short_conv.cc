#include "model/mixers/short_conv.h"

#include "model/mixers/conv_taps.h"

namespace ashlar {

GatedShortConv::GatedShortConv(WeightBinder& binder, const StackConfig& config, const std::string& base)
    : shape_(config.short_conv->shape) {
  const LayerNames& names = config.names;
  const bool bias = config.short_conv->bias;
  taps_ = {binder.ops(), read_taps(binder, base + names.conv_taps + ".weight", shape_.channels, shape_.taps)};
  if (bias) bias_ = binder.device_vector(base + names.conv_taps + ".bias", shape_.channels);
  in_ = binder.linear({{base + names.conv_input, shape_.projected_width()}}, config.hidden, bias);
  output_ = binder.linear({{base + names.conv_output, config.hidden}}, shape_.channels, bias);
}

void GatedShortConv::register_state(KvLayout& layout, const std::string& name, Ops&) {
  constexpr auto kFloat = static_cast<int64_t>(sizeof(float));
  state_ = layout.add_state(name, kFloat * shape_.state_floats(), kFloat * shape_.log_floats());
}

Tensor GatedShortConv::mix(Ops& ops, const MixerCall& call) const {
  if (call.copy.rows > 0) ops.copy(call.in.x, call.copy);
  const Rows rows = call.batch.rows();
  const Tensor projected = call.workspace.projected.narrow(rows.n).columns(0, projected_width());
  const Tensor mixed = call.workspace.mixed.narrow(rows.n).columns(0, mixed_width());
  ops.linear(*in_, call.in, Store::kOverwrite, projected);
  ops.short_conv(projected, {shape_, taps_.data(), bias_.data(), rows, call.memory.state(state_)}, mixed);
  return mixed;
}

void GatedShortConv::forward(Ops& ops, const MixerCall& call, Tensor x) const {
  ops.linear(*output_, mix(ops, call), Store::kAdd, x);
}

void GatedShortConv::forward_outputs(Ops& ops, const MixerCall& call, Tensor x) const {
  const Tensor mixed = mix(ops, call);
  if (x.rows == 0) return;
  const Tensor outputs = call.workspace.projected.narrow(x.rows).columns(0, mixed_width());
  ops.gather_rows(mixed, call.batch.outputs(), outputs);
  ops.linear(*output_, outputs, Store::kAdd, x);
}

}  // namespace ashlar
