// SPDX-License-Identifier: Apache-2.0
#include "model/drafters/eagle3_attention.h"

namespace ashlar {

MixerCall Eagle3Attention::with_pairs(Ops& ops, const MixerCall& call) const {
  const Tensor x = call.in.x;
  const Tensor pairs = pairs_.narrow(x.rows);
  const Tensor embedded = pairs.columns(0, x.cols);
  ops.rms_norm(embedded, call.in.norm, call.in.eps, embedded);
  ops.rms_norm(x, feature_norm_.data(), call.in.eps, pairs.columns(x.cols, x.cols));
  return {call.batch, pairs, call.memory, call.workspace, call.visible, {}};
}

void Eagle3Attention::forward(Ops& ops, const MixerCall& call, Tensor x) const {
  const MixerCall own = with_pairs(ops, call);
  if (normed_residual_) ops.copy(own.in.x.columns(x.cols, x.cols), x);
  attention_->forward(ops, own, x);
}

void Eagle3Attention::forward_outputs(Ops& ops, const MixerCall& call, Tensor x) const {
  if (normed_residual_ && x.rows > 0) ops.rms_norm(x, feature_norm_.data(), call.in.eps, x);
  attention_->forward_outputs(ops, with_pairs(ops, call), x);
}

}  // namespace ashlar
