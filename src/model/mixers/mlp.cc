// SPDX-License-Identifier: Apache-2.0
#include "model/mixers/mlp.h"

namespace ashlar {

std::vector<WeightBinder::Part> DenseMlp::Names::gate_up(int32_t width) const {
  if (!fused_gate_up.empty()) return {{fused_gate_up, {width, width}}};
  return {{gate, width}, {up, width}};
}

DenseMlp::DenseMlp(WeightBinder& binder, const Names& names, int32_t hidden, int32_t width, bool bias)
    : gate_up_(binder.gated(names.gate_up(width), hidden, bias)),
      down_(binder.linear({{names.down, hidden}}, width, bias)) {}

void DenseMlp::forward(Ops& ops, Input in, const MlpWorkspace& /*workspace*/, Tensor x) const {
  ops.gated_mlp(*gate_up_, *down_, in, x);
}

namespace {

std::unique_ptr<Mlp> bind_dense(WeightBinder& binder, const std::string& base, const StackConfig& config,
                                int32_t layer) {
  const LayerNames& names = config.names;
  DenseMlp::Names tensors = {base + names.gate, base + names.up, base + names.down};
  if (names.fused_gate_up != nullptr) tensors.fused_gate_up = base + names.fused_gate_up;
  const int32_t width = config.mlp_width(layer);
  if (config.activation == Activation::kGelu) {
    return std::make_unique<GeluMlp>(binder, tensors, config.hidden, width, config.mlp_bias);
  }
  return std::make_unique<DenseMlp>(binder, tensors, config.hidden, width, config.mlp_bias);
}

}  // namespace

std::unique_ptr<Mlp> bind_mlp(WeightBinder& binder, const std::string& base, const StackConfig& config, int32_t layer) {
  if (!config.moe || !config.moe->layers[static_cast<size_t>(layer)]) return bind_dense(binder, base, config, layer);
  if (!config.moe->with_dense) return std::make_unique<MoeMlp>(binder, base, config);
  return std::make_unique<DenseAndMoeMlp>(binder, base, config, bind_dense(binder, base, config, layer));
}

}  // namespace ashlar
