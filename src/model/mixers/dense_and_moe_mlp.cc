// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "model/mixers/expert_tensors.h"
#include "model/mixers/mlp.h"

namespace ashlar {
namespace {

DeviceVector router_norm(WeightBinder& binder, const std::string& name, int32_t hidden) {
  std::vector<float> values = binder.vector(name, hidden);
  for (float& value : values) value /= std::sqrt(static_cast<float>(hidden));
  return {binder.ops(), values};
}

}  // namespace

DenseAndMoeMlp::DenseAndMoeMlp(WeightBinder& binder, const std::string& base, const StackConfig& config,
                               std::unique_ptr<Mlp> dense)
    : routing_(config.moe->routing),
      dense_(std::move(dense)),
      dense_output_norm_(binder.norm(base + config.names.dense_output_norm, config.hidden, config.norms_from_one)),
      experts_norm_(binder.norm(base + config.names.experts_norm, config.hidden, config.norms_from_one)),
      experts_output_norm_(binder.norm(base + config.names.experts_output_norm, config.hidden, config.norms_from_one)),
      router_norm_(router_norm(binder, base + config.names.router_scale, config.hidden)),
      router_(binder.router({base + config.names.router, config.moe->n_experts}, config.hidden, false)),
      expert_scale_(binder.device_vector(base + config.names.expert_scale, config.moe->n_experts)),
      experts_(binder.ops().pack_experts(ExpertTensors(binder, base, config).experts())) {
  ASHLAR_CHECK(config.answers_apart());
}

void DenseAndMoeMlp::forward(Ops& ops, Input in, const MlpWorkspace& workspace, Tensor x) const {
  const Tensor half = workspace.shared.narrow(x.rows);
  const auto add = [&](const DeviceVector& norm, const auto& compute) {
    ops.copy(workspace.zeros.narrow(x.rows), half);
    compute();
    ops.rms_norm(half, norm.data(), in.eps, half);
    ops.reduce_add(half, x);
  };
  add(dense_output_norm_, [&] { dense_->forward(ops, in, workspace, half); });
  add(experts_output_norm_, [&] {
    const Tensor normed = workspace.normed.narrow(x.rows);
    const Tensor scores = workspace.scores.narrow(x.rows);
    ops.rms_norm(in.x, router_norm_.data(), in.eps, normed);
    ops.linear(*router_, normed, Store::kOverwrite, scores);
    ops.route(scores, {nullptr, expert_scale_.data()}, routing_, workspace.routes);
    ops.rms_norm(in.x, experts_norm_.data(), in.eps, normed);
    ops.mix_experts(*experts_, normed, workspace.routes, half);
  });
}

}  // namespace ashlar
