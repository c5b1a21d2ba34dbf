// SPDX-License-Identifier: Apache-2.0
#include "model/mixers/expert_tensors.h"
#include "model/mixers/mlp.h"

namespace ashlar {
MoeMlp::MoeMlp(WeightBinder& binder, const std::string& base, const StackConfig& config)
    : routing_(config.moe->routing),
      router_(
          binder.router({base + config.names.router, config.moe->n_experts}, config.hidden, config.moe->router_bias)),
      experts_(binder.ops().pack_experts(ExpertTensors(binder, base, config).experts())) {
  const MoeConfig& moe = *config.moe;
  if (moe.expert_bias) bias_ = binder.device_vector(base + config.names.expert_bias, moe.n_experts);
  if (moe.shared_intermediate > 0) {
    const LayerNames& names = config.names;
    const std::string shared = base + names.shared_experts;
    shared_ = std::make_unique<DenseMlp>(binder,
                                         DenseMlp::Names{shared + names.shared_gate_part, shared + names.shared_up_part,
                                                         shared + names.shared_down_part},
                                         config.hidden, moe.shared_intermediate, false);
  }
  if (moe.shared_gate) shared_gate_ = binder.linear({{base + config.names.shared_gate, 1}}, config.hidden, false);
}

void MoeMlp::add_shared(Ops& ops, Tensor normed, const MlpWorkspace& workspace, Tensor x) const {
  if (!shared_gate_) return shared_->forward(ops, normed, workspace, x);
  const Tensor shared = workspace.shared.narrow(x.rows);
  const Tensor gates = workspace.gates.narrow(x.rows);
  ops.copy(workspace.zeros.narrow(x.rows), shared);
  shared_->forward(ops, normed, workspace, shared);
  ops.linear(*shared_gate_, normed, Store::kOverwrite, gates);
  ops.sigmoid_gate(gates, shared);
  ops.reduce_add(shared, x);
}

void MoeMlp::forward(Ops& ops, Input in, const MlpWorkspace& workspace, Tensor x) const {
  // Router and experts read the same rows, after the shared expert has added to x.
  const Tensor normed = workspace.normed.narrow(x.rows);
  ASHLAR_CHECK(in.norm != nullptr);
  ops.rms_norm(in.x, in.norm, in.eps, normed);
  const Tensor scores = workspace.scores.narrow(x.rows);
  ops.linear(*router_, normed, Store::kOverwrite, scores);
  ops.route(scores, bias_.data(), routing_, workspace.routes);
  if (shared_) add_shared(ops, normed, workspace, x);
  ops.mix_experts(*experts_, normed, workspace.routes, x);
}

size_t MoeMlp::bytes() const { return router_->bytes() + experts_->bytes() + (shared_ ? shared_->bytes() : 0); }

}  // namespace ashlar
