// SPDX-License-Identifier: Apache-2.0
#include "model/mixers/block_conv.h"

#include <vector>

namespace ashlar {
namespace {

DeviceVector bind_base(WeightBinder& binder, const std::string& name, int64_t taps, int64_t hidden) {
  std::vector<float> values;
  for (const WeightPart& side : binder.matrices(name, 2, taps, hidden)) {
    const size_t at = values.size();
    values.resize(at + static_cast<size_t>(taps * hidden));
    decode_rows(side, 0, taps, values.data() + at);
  }
  return {binder.ops(), values};
}

}  // namespace

BlockConv::BlockConv(WeightBinder& binder, const std::string& base, const std::string& kernel,
                     const BlockConvConfig& config, int32_t hidden)
    : config_(config),
      hidden_(hidden),
      base_(bind_base(binder, base, config.taps, hidden)),
      projection_(binder.linear({{kernel, dynamic_width(config, hidden)}}, hidden, false)) {}

GroupedConv BlockConv::side(int32_t index) const {
  return {config_.taps, config_.group, base_.data() + int64_t{index} * config_.taps * hidden_};
}

Tensor BlockConv::enter(Ops& ops, const Rows& rows, const Input& in, const ConvWorkspace& workspace) const {
  const Tensor normed = workspace.normed.narrow(rows.n), dynamic = workspace.dynamic.narrow(rows.n);
  const Tensor convolved = workspace.convolved.narrow(rows.n);
  ops.rms_norm(in.x, in.norm, in.eps, normed);
  ops.linear(*projection_, normed, Store::kOverwrite, dynamic);
  ops.grouped_conv(normed, dynamic.columns(0, dynamic.cols / 2), side(0), rows.tables, Store::kOverwrite, convolved);
  ops.copy(workspace.zeros.narrow(rows.n), workspace.added.narrow(rows.n));
  return convolved;
}

void BlockConv::leave(Ops& ops, const Rows& rows, const ConvWorkspace& workspace, Tensor x) const {
  const Tensor dynamic = workspace.dynamic.narrow(rows.n);
  const int32_t half = dynamic.cols / 2;
  ops.grouped_conv(workspace.added.narrow(rows.n), dynamic.columns(half, half), side(1), rows.tables, Store::kAdd, x);
}

}  // namespace ashlar
