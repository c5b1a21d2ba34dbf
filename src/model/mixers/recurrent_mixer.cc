// SPDX-License-Identifier: Apache-2.0
#include "model/mixers/recurrent_mixer.h"

#include <utility>

namespace ashlar {

void RecurrentMixer::bind(std::unique_ptr<Weight> in, std::unique_ptr<Weight> output) {
  in_ = std::move(in);
  output_ = std::move(output);
}

void RecurrentMixer::register_state(KvLayout& layout, const std::string& name, Ops&) {
  constexpr auto kFloat = static_cast<int64_t>(sizeof(float));
  state_ = layout.add_state(name, kFloat * state_floats_, kFloat * log_floats_);
}

Tensor RecurrentMixer::mix(Ops& ops, const MixerCall& call) const {
  if (call.copy.rows > 0) ops.copy(call.in.x, call.copy);
  const Rows rows = call.batch.rows();
  const Tensor projected = call.workspace.projected.narrow(rows.n).columns(0, projected_width_);
  const Tensor mixed = call.workspace.mixed.narrow(rows.n).columns(0, mixed_width_);
  ops.linear(*in_, call.in, Store::kOverwrite, projected);
  step(ops, projected, rows, call.memory.state(state_), mixed);
  return mixed;
}

void RecurrentMixer::forward(Ops& ops, const MixerCall& call, Tensor x) const {
  ops.linear(*output_, mix(ops, call), Store::kAdd, x);
}

void RecurrentMixer::forward_outputs(Ops& ops, const MixerCall& call, Tensor x) const {
  const Tensor mixed = mix(ops, call);
  if (x.rows == 0) return;
  const Tensor outputs = call.workspace.projected.narrow(x.rows).columns(0, mixed_width_);
  ops.gather_rows(mixed, call.batch.outputs(), outputs);
  ops.linear(*output_, outputs, Store::kAdd, x);
}

}  // namespace ashlar
