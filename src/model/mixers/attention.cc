// SPDX-License-Identifier: Apache-2.0
#include "model/mixers/attention.h"

#include <utility>

namespace ashlar {

Attention::Attention(WeightBinder& binder, const StackConfig& config, const std::string& base, int32_t layer,
                     const Ropes& ropes, int32_t inputs)
    : shape_(config.layers[layer].shape), norm_eps_(config.norm_eps), rope_(ropes.of_layer(layer)) {
  const LayerNames& names = config.names;
  const auto norm = [&](const char* name, int32_t n) { return binder.norm(base + name, n, config.norms_from_one); };
  if (config.qk_norm && !config.wide_qk_norm) {
    q_norm_ = norm(names.q_norm, shape_.head_dim);
    k_norm_ = norm(names.k_norm, shape_.head_dim);
  } else if (config.qk_norm) {
    wide_q_norm_ = norm(names.q_norm, shape_.q_width());
    wide_k_norm_ = norm(names.k_norm, shape_.kv_width());
  }
  if (config.sinks) {
    sinks_ = binder.device_vector(base + names.sinks, shape_.n_heads);
    shape_.sinks = sinks_.data();
  }
  if (config.value_norm) value_norm_ = {binder.ops(), std::vector<float>(static_cast<size_t>(shape_.head_dim), 1.0F)};
  if (config.output_gate) {
    bind_gated(binder, config, base);
  } else if (config.layers[layer].values_are_keys) {
    bind_keys_as_values(binder, config, base);
  } else {
    InterleavedHeads interleaved;
    // Converters reorder heads that nothing rotates, too.
    if (names.interleaved_heads)
      interleaved = {shape_.head_dim, rope_.rotary_dim > 0 ? rope_.rotary_dim : shape_.head_dim};
    std::vector<WeightBinder::Part> qkv = {{base + names.q, shape_.q_width(), interleaved},
                                           {base + names.k, shape_.kv_width(), interleaved},
                                           {base + names.v, shape_.kv_width()}};
    if (names.fused_qkv != nullptr) {
      qkv = {{base + names.fused_qkv, {shape_.q_width(), shape_.kv_width(), shape_.kv_width()}}};
    }
    qkv_ = binder.linear(qkv, inputs > 0 ? inputs : config.hidden, config.qkv_bias);
  }
  output_ = binder.linear({{base + names.attention_output, config.hidden}}, shape_.q_width(), config.output_bias);
}

// The rows of keys stand in the product twice: what becomes of keys is not what becomes of values.
void Attention::bind_keys_as_values(WeightBinder& binder, const StackConfig& config, const std::string& base) {
  ASHLAR_CHECK(!config.qkv_bias);
  const WeightPart q = binder.matrix(base + config.names.q + ".weight", shape_.q_width(), config.hidden);
  const WeightPart k = binder.matrix(base + config.names.k + ".weight", shape_.kv_width(), config.hidden);
  qkv_ = binder.linear({q, k, k});
}

// Rows of q's projection are, head by head, those of the query and those of the gate. Each kind becomes a product of
// its own, so that queries, keys and values lie as they do without a gate.
void Attention::bind_gated(WeightBinder& binder, const StackConfig& config, const std::string& base) {
  const LayerNames& names = config.names;
  const int64_t head = shape_.head_dim;
  const WeightPart both = binder.matrix(base + names.q + ".weight", int64_t{2} * shape_.q_width(), config.hidden);
  std::vector<WeightPart> qkv, gate;
  for (int64_t h = 0; h < shape_.n_heads; ++h) {
    qkv.push_back(both.block(2 * h * head, head, 0, config.hidden));
    gate.push_back(both.block((2 * h + 1) * head, head, 0, config.hidden));
  }
  for (const char* name : {names.k, names.v}) {
    qkv.push_back(binder.matrix(base + name + ".weight", shape_.kv_width(), config.hidden));
  }
  qkv_ = binder.linear(std::move(qkv));
  gate_ = binder.linear(std::move(gate));
}

void Attention::register_state(KvLayout& layout, const std::string& name, Ops& ops) {
  plane_ = layout.add_paged(name, ops.kv_page_bytes(shape_));
}

KvStore Attention::store(const Rows& rows, const KvMemory& memory) const {
  return {shape_, q_norm_.data(), k_norm_.data(), norm_eps_, rope_, rows, memory.plane(plane_)};
}

Tensor Attention::qkv_of(const MixerCall& call, int32_t rows) const {
  return call.workspace.projected.narrow(rows).columns(0, qkv_width());
}

void Attention::project(Ops& ops, const MixerCall& call, Tensor qkv, const KvStore& to) const {
  if (!finishes_apart()) return ops.linear_kv(*qkv_, call.in, qkv, to);
  ops.linear(*qkv_, call.in, Store::kOverwrite, qkv);
  if (wide_q_norm_.data() != nullptr) {
    const Tensor q = qkv.columns(0, shape_.q_width());
    const Tensor k = qkv.columns(shape_.q_width(), shape_.kv_width());
    ops.rms_norm(q, wide_q_norm_.data(), norm_eps_, q);
    ops.rms_norm(k, wide_k_norm_.data(), norm_eps_, k);
  }
  for (int32_t h = 0; h < shape_.n_kv_heads && value_norm_.data() != nullptr; ++h) {
    const Tensor v = qkv.columns(shape_.q_width() + shape_.kv_width() + h * shape_.head_dim, shape_.head_dim);
    ops.rms_norm(v, value_norm_.data(), norm_eps_, v);
  }
  ops.store_kv(qkv, to);
}

void Attention::gate(Ops& ops, const MixerCall& call, Input in, Tensor mixed) const {
  const Tensor gates = call.workspace.projected.narrow(mixed.rows).columns(qkv_width(), shape_.q_width());
  ops.linear(*gate_, in, Store::kOverwrite, gates);
  ops.sigmoid_gate(gates, mixed);
}

void Attention::forward(Ops& ops, const MixerCall& call, Tensor x) const {
  const Rows rows = call.batch.rows();
  const KvStore to = store(rows, call.memory);
  const Tensor qkv = qkv_of(call, rows.n);
  const Tensor mixed = call.workspace.mixed.narrow(rows.n).columns(0, mixed_width());
  if (!gate_ && !finishes_apart()) {
    return ops.self_attention({*qkv_, *output_, call.in, to, call.visible, qkv, mixed, call.copy}, x);
  }
  if (call.copy.rows > 0) ops.copy(call.in.x, call.copy);
  project(ops, call, qkv, to);
  ops.attention(qkv, shape_, rows, call.visible, to.plane, mixed);
  if (gate_) gate(ops, call, call.in, mixed);
  ops.linear(*output_, mixed, Store::kAdd, x);
}

void Attention::forward_outputs(Ops& ops, const MixerCall& call, Tensor x) const {
  if (call.copy.rows > 0) ops.copy(call.in.x, call.copy);
  const Rows rows = call.batch.rows();
  const KvStore to = store(rows, call.memory);
  const Tensor qkv = qkv_of(call, rows.n);
  project(ops, call, qkv, to);
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
  if (gate_) gate(ops, call, {x, call.in.norm, call.in.eps}, of_outputs);
  ops.linear(*output_, of_outputs, Store::kAdd, x);
}

void Attention::commit(Ops& ops, const KvMemory& memory, const BranchTable& branch, const int32_t* pages) const {
  ops.commit_kv(shape_, branch, pages, memory.plane(plane_));
}

}  // namespace ashlar
