// SPDX-License-Identifier: Apache-2.0
#include "train/eagle3/eagle3_pass.h"

#include <algorithm>
#include <utility>

namespace ashlar {

Eagle3Pass::Eagle3Pass(TrainOps& ops, const TrainShape& shape, const Eagle3Parameters& parameters,
                       const FrozenTables& frozen, std::optional<DistributionLoss> distribution)
    : ChainPass(ops, shape, parameters.factor_type(), shape.head_dim,
                {parameters.mlp_norm, parameters.gate, parameters.up, parameters.down}, frozen, distribution),
      parameters_(parameters) {}

void Eagle3Pass::lay_out(TensorRoom& room, const Sizes& sizes) {
  ChainPass::lay_out(room, sizes);
  const int32_t hidden = shape_.hidden, either = std::max(sizes.context_rows, sizes.blocks);
  for (Tensor* t : {&features_, &d_features_}) *t = room.take(sizes.context_rows, hidden);
  context_pairs_ = room.take(sizes.context_rows, 2 * hidden, factor_);
  pairs_.resize(static_cast<size_t>(n_steps_));
  for (Tensor& pairs : pairs_) pairs = room.take(sizes.blocks, 2 * hidden, factor_);
  first_input_ = room.take(sizes.blocks, hidden);
  embedded_ = room.take(either, hidden, factor_);
  d_embedded_ = room.take(either, hidden);
  d_pairs_ = room.take(either, 2 * hidden);
}

size_t Eagle3Pass::bytes(int32_t context_rows, int32_t block_rows) const {
  Eagle3Pass copy(ops_, shape_, parameters_, frozen_, distribution_);
  TensorRoom room(nullptr);
  copy.lay_out(room, Sizes::most(context_rows, block_rows, shape_.block));
  return room.size();
}

void Eagle3Pass::context_forward() {
  ops_.linear(aux_hidden_, parameters_.fc.factor, Store::kOverwrite, features_);
  make_pairs(context_ids_, features_, context_pairs_);
  make_keys(context_pairs_, context_positions_, keys_.narrow(context_rows_));
  ops_.gather(features_, feature_rows_, 1, first_input_);
}

void Eagle3Pass::make_pairs(const int32_t* ids, Tensor features, Tensor pairs) {
  const Tensor embedded = embedded_.narrow(pairs.rows);
  ops_.gather(frozen_.embedding, ids, shape_.embedding_scale, embedded);
  norm(embedded, parameters_.embedding_norm, pairs.columns(0, shape_.hidden));
  norm(features, parameters_.feature_norm, pairs.columns(shape_.hidden, shape_.hidden));
}

void Eagle3Pass::make_keys(Tensor pairs, const int32_t* positions, Tensor keys) {
  ops_.linear(pairs, parameters_.k.factor, Store::kOverwrite, key_half(keys));
  ops_.linear(pairs, parameters_.v.factor, Store::kOverwrite, value_half(keys));
  rotate(key_half(keys), positions, false);
}

void Eagle3Pass::step_forward(int32_t s) {
  const Step& now = step(s);
  const Tensor pairs = pairs_[static_cast<size_t>(s)];
  make_pairs(now.ids, input_of(s), pairs);
  make_keys(pairs, now.positions, now.keys);
  ops_.linear(pairs, parameters_.q.factor, Store::kOverwrite, q_);
  rotate(q_, now.positions, false);
  attend(s);
  ops_.copy(input_of(s), now.middle);
  ops_.linear(attended(s), parameters_.o.factor, Store::kAdd, now.middle);
  mlp_forward(now);
}

// d_output is the gradient of the residual stream: after the layer, in its middle, and before it, which is that of what
// the step before left.
void Eagle3Pass::step_backward(int32_t s) {
  const Step& now = step(s);
  const Tensor pairs = pairs_[static_cast<size_t>(s)];
  mlp_backward(now);
  ops_.linear_weight_gradient(now.d_output, attended(s), parameters_.o.gradient);
  ops_.linear_input_gradient(now.d_output, parameters_.o.factor, Store::kOverwrite, d_attended_);
  attend_backward(s, d_attended_);
  rotate(d_q_, now.positions, true);
  ops_.linear_weight_gradient(d_q_, pairs, parameters_.q.gradient);
  ops_.linear_input_gradient(d_q_, parameters_.q.factor, Store::kOverwrite, d_pairs_.narrow(blocks_));
  keys_backward(now.d_keys, now.positions, pairs, Store::kAdd);
  pairs_backward(now.ids, input_of(s), now.d_output);
  if (s == 0) return ops_.scatter(now.d_output, feature_rows_, ones_.row(0), Store::kOverwrite, d_features_);
  add(now.d_output, step(s - 1).d_output);
}

void Eagle3Pass::keys_backward(Tensor d_keys, const int32_t* positions, Tensor pairs, Store store) {
  const Tensor d_pairs = d_pairs_.narrow(pairs.rows);
  rotate(key_half(d_keys), positions, true);
  ops_.linear_weight_gradient(key_half(d_keys), pairs, parameters_.k.gradient);
  ops_.linear_weight_gradient(value_half(d_keys), pairs, parameters_.v.gradient);
  ops_.linear_input_gradient(key_half(d_keys), parameters_.k.factor, store, d_pairs);
  ops_.linear_input_gradient(value_half(d_keys), parameters_.v.factor, Store::kAdd, d_pairs);
}

void Eagle3Pass::pairs_backward(const int32_t* ids, Tensor features, Tensor d_features) {
  const Tensor embedded = embedded_.narrow(features.rows);
  const Tensor d_pairs = d_pairs_.narrow(features.rows);
  ops_.gather(frozen_.embedding, ids, shape_.embedding_scale, embedded);
  norm_backward(d_pairs.columns(0, shape_.hidden), embedded, parameters_.embedding_norm, Store::kOverwrite,
                d_embedded_.narrow(features.rows));
  norm_backward(d_pairs.columns(shape_.hidden, shape_.hidden), features, parameters_.feature_norm, Store::kAdd,
                d_features);
}

void Eagle3Pass::context_backward() {
  keys_backward(d_context_, context_positions_, context_pairs_, Store::kOverwrite);
  pairs_backward(context_ids_, features_, d_features_);
  ops_.linear_weight_gradient(d_features_, aux_hidden_, parameters_.fc.gradient);
}

TrainedNetwork make_eagle3_network(TrainOps& ops, const TrainShape& shape, const TrainSettings& settings,
                                   const FrozenTables& frozen) {
  auto parameters = std::make_unique<Eagle3Parameters>(ops, shape, settings.compute);
  auto pass = std::make_unique<Eagle3Pass>(ops, shape, *parameters, frozen, settings.distribution);
  return {std::move(parameters), std::move(pass)};
}

}  // namespace ashlar
