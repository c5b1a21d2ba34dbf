// SPDX-License-Identifier: Apache-2.0
#include "staged_arguments.h"
#include "staged_ops.h"

// Recurrent layers, convolutions and the heads of drafters.

namespace ashlar::conformance {

void StagedOps::gated_delta_net(Tensor in, const DeltaNet& net, Tensor out) {
  const DeltaShape& shape = net.shape;
  StagedTensor to(*inner_, out, activation_type());
  StagedPlane states(*this, net.states);
  const StagedRows list(*inner_, net.rows, nullptr);
  const auto taps = staged(*inner_, net.weights.taps, int64_t{shape.taps} * shape.channels());
  const auto decay = staged(*inner_, net.weights.decay, shape.n_v_heads);
  const auto bias = staged(*inner_, net.weights.bias, shape.n_v_heads);
  const auto norm = staged(*inner_, net.weights.norm, shape.v_dim);
  const DeltaWeights weights = {taps.device(), decay.device(), bias.device(), norm.device(), net.weights.eps};
  inner_->gated_delta_net(StagedTensor(*inner_, in, activation_type()).device(),
                          {shape, weights, list.rows, states.device()}, to.device());
  to.fetch();
  states.fetch();
}

void StagedOps::short_conv(Tensor in, const ShortConv& conv, Tensor out) {
  const ShortConvShape& shape = conv.shape;
  StagedTensor to(*inner_, out, activation_type());
  StagedPlane states(*this, conv.states);
  const StagedRows list(*inner_, conv.rows, nullptr);
  const auto taps = staged(*inner_, conv.taps, int64_t{shape.taps} * shape.channels);
  const auto bias = staged(*inner_, conv.bias, shape.channels);
  inner_->short_conv(StagedTensor(*inner_, in, activation_type()).device(),
                     {shape, taps.device(), bias.device(), list.rows, states.device()}, to.device());
  to.fetch();
  states.fetch();
}

void StagedOps::grouped_conv(Tensor x, Tensor dynamic, const GroupedConv& conv, const int32_t* tables, Store store,
                             Tensor out) {
  StagedTensor to(*inner_, out, activation_type());
  const auto base = staged(*inner_, conv.base, int64_t{conv.taps} * x.cols);
  inner_->grouped_conv(
      StagedTensor(*inner_, x, activation_type()).device(), StagedTensor(*inner_, dynamic, activation_type()).device(),
      {conv.taps, conv.group, base.device()}, staged(*inner_, tables, x.rows).device(), store, to.device());
  to.fetch();
}

void StagedOps::find_candidates(Tensor logits, Candidates out) {
  const int64_t size = int64_t{logits.rows} * out.n;
  auto ids = staged(*inner_, out.ids, size);
  auto values = staged(*inner_, out.logits, size);
  inner_->find_candidates(StagedTensor(*inner_, logits, DType::kF32).device(), {out.n, ids.device(), values.device()});
  ids.fetch();
  values.fetch();
}

void StagedOps::score_edges(const CandidateEdges& edges, Tensor out) {
  StagedTensor to(*inner_, out, DType::kF32);
  const StagedTensor anchors(*inner_, edges.anchors, activation_type()),
      before(*inner_, edges.before, activation_type()), after(*inner_, edges.after, activation_type()),
      hidden(*inner_, edges.hidden, DType::kF32);
  const auto logits = staged(*inner_, edges.candidates.logits, int64_t{out.rows} * edges.candidates.n);
  const auto begins = staged(*inner_, edges.begins, out.rows);
  inner_->score_edges({{edges.candidates.n, nullptr, logits.device()},
                       begins.device(),
                       anchors.device(),
                       before.device(),
                       after.device(),
                       hidden.device(),
                       edges.scale},
                      to.device());
  to.fetch();
}

void StagedOps::candidate_attention(Tensor qkv, const CandidateAttention& call, Tensor out) {
  StagedTensor to(*inner_, out, activation_type());
  const auto bias = staged(*inner_, call.bias, int64_t{call.heads} * (2 * call.reach + 1));
  const auto first = staged(*inner_, call.first, out.rows / call.n);
  const auto end = staged(*inner_, call.end, out.rows / call.n);
  inner_->candidate_attention(StagedTensor(*inner_, qkv, activation_type()).device(),
                              {call.n, call.heads, call.reach, bias.device(), first.device(), end.device()},
                              to.device());
  to.fetch();
}

}  // namespace ashlar::conformance
