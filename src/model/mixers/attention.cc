#include "model/mixers/attention.h"

namespace ashlar {

Attention::Attention(WeightBinder& binder, const StackConfig& config, const std::string& base, int32_t layer,
                     const Ropes& ropes)
    : shape_(config.layers[layer].shape), norm_eps_(config.norm_eps), rope_(ropes.of_layer(layer)) {
  const LayerNames& names = config.names;
  const auto norm = [&](const char* name) { return binder.device_vector(base + name + ".weight", shape_.head_dim); };
  if (config.qk_norm) {
    q_norm_ = norm(names.q_norm);
    k_norm_ = norm(names.k_norm);
  }
  const int64_t interleaved = names.interleaved_heads ? shape_.head_dim : 0;
  std::vector<WeightBinder::Part> qkv = {{base + names.q, shape_.q_width(), interleaved},
                                         {base + names.k, shape_.kv_width(), interleaved},
                                         {base + names.v, shape_.kv_width()}};
  if (names.fused_qkv != nullptr) {
    qkv = {{base + names.fused_qkv, {shape_.q_width(), shape_.kv_width(), shape_.kv_width()}}};
  }
  qkv_ = binder.linear(qkv, config.hidden, config.qkv_bias);
  output_ = binder.linear({{base + names.attention_output, config.hidden}}, shape_.q_width(), config.output_bias);
}

void Attention::register_state(KvLayout& layout, const std::string& name, Ops& ops) {
  plane_ = layout.add_paged(name, ops.kv_page_bytes(shape_));
}

KvStore Attention::store(const Rows& rows, const KvMemory& memory) const {
  return {shape_, q_norm_.data(), k_norm_.data(), norm_eps_, rope_, rows, memory.plane(plane_)};
}

void Attention::forward(Ops& ops, const MixerCall& call, Tensor x) const {
  const Rows rows = call.batch.rows();
  const KvStore to = store(rows, call.memory);
  const Tensor qkv = call.workspace.projected.narrow(rows.n).columns(0, projected_width());
  const Tensor mixed = call.workspace.mixed.narrow(rows.n).columns(0, mixed_width());
  ops.self_attention({*qkv_, *output_, call.in, to, call.visible, qkv, mixed, call.copy}, x);
}

void Attention::forward_outputs(Ops& ops, const MixerCall& call, Tensor x) const {
  if (call.copy.rows > 0) ops.copy(call.in.x, call.copy);
  const Rows rows = call.batch.rows();
  const KvStore to = store(rows, call.memory);
  const Tensor qkv = call.workspace.projected.narrow(rows.n).columns(0, projected_width());
  ops.linear_kv(*qkv_, call.in, qkv, to);
  const int32_t n_outputs = call.batch.n_outputs();
  if (n_outputs == 0) return;

  // Rows before the first output need not attend to anything.
  const int32_t first = call.batch.first_output();
  const int32_t n = rows.n - first;
  const Tensor mixed = call.workspace.mixed.narrow(rows.n).columns(0, mixed_width());
  ops.attention(qkv.part(first, n), shape_, rows.part(first, n), {call.visible.begin + first, call.visible.end + first},
                to.plane, mixed.part(first, n));
  const Tensor of_outputs = qkv.narrow(n_outputs).columns(0, mixed_width());
  ops.gather_rows(mixed, call.batch.outputs(), of_outputs);
  ops.linear(*output_, of_outputs, Store::kAdd, x);
}

void Attention::commit(Ops& ops, const KvMemory& memory, const BranchTable& branch, const int32_t* pages) const {
  ops.commit_kv(shape_, branch, pages, memory.plane(plane_));
}

}  // namespace ashlar
