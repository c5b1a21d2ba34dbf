// SPDX-License-Identifier: Apache-2.0
#include "model/mixers/shared_attention.h"

namespace ashlar {

SharedAttention::SharedAttention(WeightBinder& binder, const StackConfig& config, const std::string& base,
                                 int32_t layer, const Ropes& ropes, const Attention& source)
    : shape_(config.layers[static_cast<size_t>(layer)].shape),
      queries_alone_(shape_),
      norm_eps_(config.norm_eps),
      rope_(ropes.of_layer(layer)),
      source_(source),
      queries_(binder.linear({{base + config.names.q, shape_.q_width()}}, config.hidden, config.qkv_bias)),
      output_(binder.linear({{base + config.names.attention_output, config.hidden}}, shape_.q_width(),
                            config.output_bias)) {
  ASHLAR_CHECK(shape_ == source.shape() && !config.sinks && !config.output_gate && !config.wide_qk_norm);
  queries_alone_.n_kv_heads = 0;
  if (config.qk_norm) q_norm_ = binder.norm(base + config.names.q_norm, shape_.head_dim, config.norms_from_one);
  for (const char* name : {config.names.k, config.names.v, config.names.k_norm}) {
    const std::string tensor = base + name + ".weight";
    if (binder.has(tensor)) binder.ignore(tensor);
  }
}

void SharedAttention::mix(Ops& ops, const MixerCall& call, int32_t first) const {
  const Rows rows = call.batch.rows().part(first, call.batch.n() - first);
  const Input in = {call.in.x.part(first, rows.n), call.in.norm, call.in.eps};
  const Tensor queries = call.workspace.projected.part(first, rows.n).columns(0, projected_width());
  const Tensor mixed = call.workspace.mixed.part(first, rows.n).columns(0, mixed_width());
  const KvPlane plane = source_.plane(call.memory);
  ops.linear(*queries_, in, Store::kOverwrite, queries);
  ops.store_kv(queries, {queries_alone_, q_norm_.data(), nullptr, norm_eps_, rope_, rows, plane});
  ops.attention(queries, shape_, rows, {call.visible.begin + first, call.visible.end + first}, plane, mixed);
}

void SharedAttention::forward(Ops& ops, const MixerCall& call, Tensor x) const {
  if (call.copy.rows > 0) ops.copy(call.in.x, call.copy);
  mix(ops, call, 0);
  ops.linear(*output_, call.workspace.mixed.narrow(x.rows).columns(0, mixed_width()), Store::kAdd, x);
}

void SharedAttention::forward_outputs(Ops& ops, const MixerCall& call, Tensor x) const {
  if (call.copy.rows > 0) ops.copy(call.in.x, call.copy);
  if (x.rows == 0) return;
  mix(ops, call, call.batch.first_output());
  const Tensor of_outputs = call.workspace.projected.narrow(x.rows).columns(0, mixed_width());
  ops.gather_rows(call.workspace.mixed.columns(0, mixed_width()), call.batch.outputs(), of_outputs);
  ops.linear(*output_, of_outputs, Store::kAdd, x);
}

}  // namespace ashlar
