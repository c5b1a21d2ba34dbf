// SPDX-License-Identifier: Apache-2.0
#include "train/mtp/mtp_pass.h"

#include <algorithm>
#include <utility>

namespace ashlar {

MtpPass::MtpPass(TrainOps& ops, const TrainShape& shape, const MtpParameters& parameters, const FrozenTables& frozen,
                 std::optional<DistributionLoss> distribution)
    : ChainPass(ops, shape, parameters.factor_type(), shape.own_layer->rotary_dim,
                {parameters.mlp_norm, parameters.gate, parameters.up, parameters.down}, frozen, distribution),
      parameters_(parameters),
      own_(*shape_.own_layer) {
  ASHLAR_CHECK_EQ(shape.aux_width, shape.hidden);
  ASHLAR_CHECK_EQ(own_.target_norm.size(), static_cast<size_t>(shape.hidden));
  const size_t bytes = own_.target_norm.size() * sizeof(float);
  target_norm_ = ops.allocate(bytes);
  ops.upload(own_.target_norm.data(), target_norm_->data(), bytes);
}

void MtpPass::lay_out(TensorRoom& room, const Sizes& sizes) {
  ChainPass::lay_out(room, sizes);
  const int32_t hidden = shape_.hidden, either = std::max(sizes.context_rows, sizes.blocks);
  const auto keep = [&](int32_t n, int32_t of_queries) {
    return LayerRows{room.take(n, 2 * hidden, factor_),
                     room.take(n, hidden),
                     room.take(n, kv_width(), factor_),
                     room.take(of_queries, q_width(), factor_),
                     nullptr,
                     nullptr};
  };
  context_kept_ = keep(sizes.context_rows, 0);
  rows_.clear();
  for (int32_t s = 0; s < n_steps_; ++s) rows_.push_back(keep(sizes.blocks, sizes.blocks));
  features_ = room.take(sizes.context_rows, hidden, factor_);
  first_input_ = room.take(sizes.blocks, hidden, factor_);
  embedded_ = room.take(either, hidden, factor_);
  for (Tensor* t : {&d_embedded_, &d_stream_}) *t = room.take(either, hidden);
  d_pairs_ = room.take(either, 2 * hidden);
  for (Tensor* t : {&placed_keys_, &d_raw_keys_}) *t = room.take(either, kv_width(), factor_);
  for (Tensor* t : {&attended_, &gated_}) *t = room.take(sizes.blocks, width(), factor_);
  d_raw_q_ = room.take(sizes.blocks, q_width(), factor_);
}

size_t MtpPass::bytes(int32_t context_rows, int32_t block_rows) const {
  MtpPass copy(ops_, shape_, parameters_, frozen_, distribution_);
  TensorRoom room(nullptr);
  copy.lay_out(room, Sizes::most(context_rows, block_rows, shape_.block));
  return room.size();
}

MtpPass::LayerRows MtpPass::rows_of(int32_t s) const {
  LayerRows rows = rows_[static_cast<size_t>(s)];
  rows.ids = step(s).ids, rows.positions = step(s).positions;
  return rows;
}

MtpPass::LayerRows MtpPass::context() const {
  LayerRows rows = context_kept_;
  rows.ids = context_ids_, rows.positions = context_positions_;
  return rows;
}

// The target's last layer leaves its states before the norm of its head.
void MtpPass::context_forward() {
  ops_.rms_norm(aux_hidden_, reinterpret_cast<const float*>(target_norm_->data()), shape_.eps, features_);
  const LayerRows rows = context();
  enter(rows, features_);
  make_keys(rows, keys_.narrow(context_rows_));
  ops_.gather(features_, feature_rows_, 1, first_input_);
}

void MtpPass::enter(const LayerRows& rows, Tensor features) {
  const int32_t n = rows.stream.rows, hidden = shape_.hidden;
  const Tensor embedded = embedded_.narrow(n);
  ops_.gather(frozen_.embedding, rows.ids, shape_.embedding_scale, embedded);
  norm(embedded, parameters_.embedding_norm, rows.pairs.columns(0, hidden));
  norm(features, parameters_.feature_norm, rows.pairs.columns(hidden, hidden));
  ops_.linear(rows.pairs, parameters_.fc.factor, Store::kOverwrite, rows.stream);
  norm(rows.stream, parameters_.input_norm, normed_.narrow(n));
}

void MtpPass::make_keys(const LayerRows& rows, Tensor keys) {
  const int32_t n = rows.stream.rows;
  const Tensor normed = normed_.narrow(n), placed = placed_keys_.narrow(n);
  ops_.linear(normed, parameters_.k.factor, Store::kOverwrite, rows.raw_keys);
  ops_.linear(normed, parameters_.v.factor, Store::kOverwrite, value_half(keys));
  norm(heads_of(rows.raw_keys), parameters_.k_norm, heads_of(placed));
  ops_.copy(placed, key_half(keys));
  rotate(key_half(keys), rows.positions, false);
}

void MtpPass::make_queries(const LayerRows& rows) {
  ops_.linear(normed_.narrow(blocks_), parameters_.q.factor, Store::kOverwrite, rows.raw_q);
  norm(query_heads(rows.raw_q), parameters_.q_norm, heads_of(q_));
  rotate(q_, rows.positions, false);
}

Tensor MtpPass::gated(int32_t s) {
  if (!own_.output_gate) return attended(s);
  ops_.copy(attended(s), attended_);
  ops_.sigmoid_mul(gate_heads(rows_of(s).raw_q), heads_of(attended_), heads_of(gated_));
  return gated_;
}

void MtpPass::step_forward(int32_t s) {
  const Step& now = step(s);
  const LayerRows rows = rows_of(s);
  enter(rows, input_of(s));
  make_keys(rows, now.keys);
  make_queries(rows);
  attend(s);
  ops_.copy(rows.stream, now.middle);
  ops_.linear(gated(s), parameters_.o.factor, Store::kAdd, now.middle);
  mlp_forward(now);
  norm(now.output, parameters_.norm, now.state);
}

// d_state has what the step's logits and the step after it say.
void MtpPass::step_backward(int32_t s) {
  const Step& now = step(s);
  const LayerRows rows = rows_of(s);
  norm_backward(now.d_state, now.output, parameters_.norm, Store::kOverwrite, now.d_output);
  mlp_backward(now);
  ops_.linear_weight_gradient(now.d_output, gated(s), parameters_.o.gradient);
  ops_.linear_input_gradient(now.d_output, parameters_.o.factor, Store::kOverwrite, d_attended_);
  if (own_.output_gate) {
    ops_.sigmoid_mul_gradient(heads_of(d_attended_), gate_heads(rows.raw_q), heads_of(attended_), gate_heads(d_raw_q_),
                              heads_of(d_attended_));
  }
  attend_backward(s, d_attended_);
  norm(rows.stream, parameters_.input_norm, normed_.narrow(blocks_));
  queries_backward(rows);
  keys_backward(rows, now.d_keys, Store::kAdd);
  if (s == 0) {
    enter_backward(rows, input_of(s), now.d_output, d_embedded_.narrow(blocks_), Store::kOverwrite);
  } else {
    enter_backward(rows, input_of(s), now.d_output, step(s - 1).d_state, Store::kAdd);
  }
}

void MtpPass::queries_backward(const LayerRows& rows) {
  rotate(d_q_, rows.positions, true);
  norm_backward(heads_of(d_q_), query_heads(rows.raw_q), parameters_.q_norm, Store::kOverwrite, query_heads(d_raw_q_));
  ops_.linear_weight_gradient(d_raw_q_, normed_.narrow(blocks_), parameters_.q.gradient);
  ops_.linear_input_gradient(d_raw_q_, parameters_.q.factor, Store::kOverwrite, d_normed_.narrow(blocks_));
}

void MtpPass::keys_backward(const LayerRows& rows, Tensor d_keys, Store store) {
  const int32_t n = rows.stream.rows;
  const Tensor d_normed = d_normed_.narrow(n), normed = normed_.narrow(n), d_raw = d_raw_keys_.narrow(n);
  rotate(key_half(d_keys), rows.positions, true);
  ops_.copy(key_half(d_keys), d_raw);
  norm_backward(heads_of(d_raw), heads_of(rows.raw_keys), parameters_.k_norm, Store::kOverwrite, heads_of(d_raw));
  ops_.linear_weight_gradient(d_raw, normed, parameters_.k.gradient);
  ops_.linear_weight_gradient(value_half(d_keys), normed, parameters_.v.gradient);
  ops_.linear_input_gradient(d_raw, parameters_.k.factor, store, d_normed);
  ops_.linear_input_gradient(value_half(d_keys), parameters_.v.factor, Store::kAdd, d_normed);
}

void MtpPass::enter_backward(const LayerRows& rows, Tensor features, Tensor d_stream, Tensor d_features, Store store) {
  const int32_t n = rows.stream.rows, hidden = shape_.hidden;
  const Tensor d_pairs = d_pairs_.narrow(n), embedded = embedded_.narrow(n);
  norm_backward(d_normed_.narrow(n), rows.stream, parameters_.input_norm, Store::kAdd, d_stream);
  ops_.linear_weight_gradient(d_stream, rows.pairs, parameters_.fc.gradient);
  ops_.linear_input_gradient(d_stream, parameters_.fc.factor, Store::kOverwrite, d_pairs);
  ops_.gather(frozen_.embedding, rows.ids, shape_.embedding_scale, embedded);
  norm_backward(d_pairs.columns(0, hidden), embedded, parameters_.embedding_norm, Store::kOverwrite,
                d_embedded_.narrow(n));
  norm_backward(d_pairs.columns(hidden, hidden), features, parameters_.feature_norm, store, d_features);
}

// The target's features are frozen: what is found of them is of no use.
void MtpPass::context_backward() {
  if (context_rows_ == 0) return;
  const LayerRows rows = context();
  const Tensor d_stream = d_stream_.narrow(context_rows_);
  norm(rows.stream, parameters_.input_norm, normed_.narrow(context_rows_));
  keys_backward(rows, d_context_, Store::kOverwrite);
  ops_.clear(d_stream.row(0), int64_t{d_stream.rows} * d_stream.cols);
  enter_backward(rows, features_, d_stream, d_embedded_.narrow(context_rows_), Store::kOverwrite);
}

TrainedNetwork make_mtp_network(TrainOps& ops, const TrainShape& shape, const TrainSettings& settings,
                                const FrozenTables& frozen) {
  auto parameters = std::make_unique<MtpParameters>(ops, shape, settings.compute);
  auto pass = std::make_unique<MtpPass>(ops, shape, *parameters, frozen, settings.distribution);
  return {std::move(parameters), std::move(pass)};
}

}  // namespace ashlar
