// SPDX-License-Identifier: Apache-2.0
#include "model/mixers/mlp.h"

namespace ashlar {

GeluMlp::GeluMlp(WeightBinder& binder, const DenseMlp::Names& names, int32_t hidden, int32_t width, bool bias)
    : width_(width),
      gate_up_(binder.linear(names.gate_up(width), hidden, bias)),
      down_(binder.linear({{names.down, hidden}}, width, bias)) {}

void GeluMlp::forward(Ops& ops, Input in, const MlpWorkspace& workspace, Tensor x) const {
  const Tensor both = workspace.gate_up.narrow(x.rows).columns(0, 2 * width_);
  const Tensor up = both.columns(width_, width_);
  ops.linear(*gate_up_, in, Store::kOverwrite, both);
  ops.gelu_gate(both.columns(0, width_), up);
  ops.linear(*down_, up, Store::kAdd, x);
}

}  // namespace ashlar
