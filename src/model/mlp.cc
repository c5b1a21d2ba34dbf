#include "model/mlp.h"

#include <algorithm>

namespace ashlar {

DenseMlp::DenseMlp(WeightBinder& binder, const Names& names, int32_t hidden, int32_t width, bool bias)
    : gate_up_(binder.gated({names.gate, width}, {names.up, width}, hidden, bias)),
      down_(binder.linear({{names.down, hidden}}, width, bias)) {}

void DenseMlp::forward(Ops& ops, Tensor normed, const MlpWorkspace& workspace, Tensor x) const {
  const Tensor gated = workspace.gated.narrow(x.rows).columns(0, down_->k());
  ops.gated_linear(*gate_up_, normed, gated);
  ops.linear(*down_, gated, Store::kAdd, x);
}

std::unique_ptr<Mlp> bind_mlp(WeightBinder& binder, const std::string& base, const StackConfig& config, int32_t layer) {
  if (config.moe && config.moe->layers[layer]) return std::make_unique<MoeMlp>(binder, base, config);
  const LayerNames& names = config.names;
  return std::make_unique<DenseMlp>(binder, DenseMlp::Names{base + names.gate, base + names.up, base + names.down},
                                    config.hidden, config.intermediate, config.mlp_bias);
}

int32_t widest_mlp(const StackConfig& config) {
  if (!config.moe) return config.intermediate;
  const std::vector<bool>& mixtures = config.moe->layers;
  const bool dense = std::find(mixtures.begin(), mixtures.end(), false) != mixtures.end();
  return std::max(dense ? config.intermediate : 1, config.moe->shared_intermediate);
}

}  // namespace ashlar
