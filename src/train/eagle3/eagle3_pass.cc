// SPDX-License-Identifier: Apache-2.0
#include "train/eagle3/eagle3_pass.h"

#include <algorithm>
#include <utility>

namespace ashlar {

namespace {

/// One row of each block: the last of `n` that a step's attention has of it.
Tensor last_of_each(Tensor x, int32_t n) {
  const Tensor from = x.skip(n - 1);
  return {from.data, x.rows / n, x.cols, x.stride * n, x.dtype};
}

}  // namespace

Eagle3Pass::Eagle3Pass(TrainOps& ops, const TrainShape& shape, const Eagle3Parameters& parameters,
                       const FrozenTables& frozen, std::optional<DistributionLoss> distribution)
    : ops_(ops),
      shape_(shape),
      parameters_(parameters),
      frozen_(frozen),
      distribution_(distribution),
      n_steps_(shape.block - 1),
      rotation_(ops, shape.head_dim, shape.rope_theta) {
  ASHLAR_CHECK_EQ(shape.layers, 1);
  ASHLAR_CHECK(shape.window == 0 && !shape.convolutions && !shape.selector);
}

void Eagle3Pass::lay_out(TensorRoom& room, const Sizes& sizes) {
  const auto [context_rows, blocks, label_rows, target_rows] = sizes;
  const int32_t hidden = shape_.hidden, steps = n_steps_;
  const int32_t rows = steps * blocks, either = std::max(context_rows, blocks);
  const DType factor = parameters_.factor_type();
  aux_hidden_ = room.take(context_rows, shape_.aux_width, factor);
  features_ = room.take(context_rows, hidden);
  context_pairs_ = room.take(context_rows, 2 * hidden, factor);
  for (Tensor* t : {&keys_, &d_keys_}) *t = room.take(context_rows + rows, 2 * kv_width(), factor);
  first_input_ = room.take(blocks, hidden);
  for (Tensor* t : {&outputs_, &d_outputs_, &d_normed_}) *t = room.take(rows, hidden);
  normed_ = room.take(rows, hidden, factor);
  const Tensor d_keys = room.take(rows, 2 * kv_width());
  steps_.resize(static_cast<size_t>(steps));
  for (int32_t s = 0; s < steps; ++s) {
    Step& step = steps_[static_cast<size_t>(s)];
    step.pairs = room.take(blocks, 2 * hidden, factor);
    step.keys = room.take(blocks, 2 * kv_width(), factor);
    for (Tensor* t : {&step.q, &step.out}) *t = room.take(blocks * (s + 1), width(), factor);
    step.log_sums = room.take(blocks * (s + 1), shape_.heads);
    step.middle = room.take(blocks, hidden);
    for (Tensor* t : {&step.gate, &step.up}) *t = room.take(blocks, shape_.intermediate, factor);
    step.output = outputs_.part(s * blocks, blocks);
    step.d_output = d_outputs_.part(s * blocks, blocks);
    step.d_keys = d_keys.part(s * blocks, blocks);
  }
  embedded_ = room.take(either, hidden, factor);
  d_embedded_ = room.take(either, hidden);
  d_pairs_ = room.take(either, 2 * hidden);
  for (Tensor* t : {&q_, &d_q_, &d_attended_}) *t = room.take(blocks, width(), factor);
  for (Tensor* t : {&d_placed_, &d_queries_}) *t = room.take(rows, width(), factor);
  part_ = room.take(std::max(context_rows, rows), 2 * kv_width());
  d_context_ = room.take(context_rows, 2 * kv_width());
  d_features_ = room.take(context_rows, hidden);
  for (Tensor* t : {&activation_, &d_gate_}) *t = room.take(blocks, shape_.intermediate, factor);
  labelled_ = room.take(label_rows, hidden, factor);
  d_labelled_ = room.take(label_rows, hidden);
  weights_ = room.take(1, label_rows);
  ones_ = room.take(1, blocks);
  if (!distribution_) return;
  final_hidden_ = room.take(target_rows, hidden, factor);
  of_target_ = room.take(label_rows, hidden, factor);
}

size_t Eagle3Pass::bytes(int32_t context_rows, int32_t block_rows) const {
  Eagle3Pass copy(ops_, shape_, parameters_, frozen_, distribution_);
  TensorRoom room(nullptr);
  copy.lay_out(room, {context_rows, block_rows / shape_.block, block_rows, context_rows});
  return room.size();
}

void Eagle3Pass::prepare(const BlockBatch& batch) {
  const Eagle3Batch rows(batch, n_steps_);
  contexts_ = rows.contexts;
  blocks_ = rows.blocks;
  context_rows_ = batch.context_rows;
  const Sizes sizes = {context_rows_, blocks_, static_cast<int32_t>(batch.labels.size()), batch.n_target_rows};
  memory_.place(ops_, [&](TensorRoom& room) { lay_out(room, sizes); });
  copy_parts(ops_, batch.aux_hidden, aux_hidden_);
  if (distribution_) {
    ASHLAR_CHECK_EQ(batch.target_rows.size(), batch.labels.size());
    copy_parts(ops_, batch.final_hidden, final_hidden_);
  }
  const std::vector<float> ones(static_cast<size_t>(blocks_), 1.0F);
  ops_.upload(ones.data(), static_cast<std::byte*>(ones_.data), ones.size() * sizeof(float));
  rotation_.reserve(batch.max_position + 1);
  prepare_indices(batch, rows);
}

void Eagle3Pass::prepare_indices(const BlockBatch& batch, const Eagle3Batch& rows) {
  std::vector<int32_t> all;
  const auto place = [&](const std::vector<int32_t>& part) {
    all.insert(all.end(), part.begin(), part.end());
    return all.size() - part.size();
  };
  const size_t context_ids = place(rows.context_ids), context_positions = place(rows.context_positions);
  const size_t feature_rows = place(rows.feature_rows), label_rows = place(rows.label_rows);
  const size_t labels = place(batch.labels), target_rows = place(batch.target_rows);
  const size_t ids = place(rows.ids), positions = place(rows.positions);
  std::vector<size_t> query_rows;
  for (const std::vector<int32_t>& queries : rows.query_rows) query_rows.push_back(place(queries));
  const size_t bytes = all.size() * sizeof(int32_t);
  if (indices_ == nullptr || indices_->size() < bytes) indices_ = ops_.allocate(bytes);
  ops_.upload(all.data(), indices_->data(), bytes);
  const auto* const placed = reinterpret_cast<const int32_t*>(indices_->data());
  context_ids_ = placed + context_ids, context_positions_ = placed + context_positions;
  feature_rows_ = placed + feature_rows, label_rows_ = placed + label_rows;
  labels_ = placed + labels, target_rows_ = placed + target_rows;
  for (size_t s = 0; s < steps_.size(); ++s) {
    const size_t first = s * static_cast<size_t>(blocks_);
    steps_[s].ids = placed + ids + first;
    steps_[s].positions = placed + positions + first;
    steps_[s].query_rows = placed + query_rows[s];
  }
}

BlockLosses Eagle3Pass::forward(const BlockBatch& batch, bool differentiates) {
  prepare(batch);
  ops_.linear(aux_hidden_, parameters_.fc.factor, Store::kOverwrite, features_);
  make_pairs(context_ids_, features_, context_pairs_);
  make_keys(context_pairs_, context_positions_, keys_.narrow(context_rows_));
  ops_.gather(features_, feature_rows_, 1, first_input_);
  for (int32_t s = 0; s < n_steps_; ++s) step_forward(s);
  norm(outputs_, parameters_.norm, normed_);
  ops_.gather(normed_, label_rows_, shape_.output_multiplier, labelled_);
  losses_.resize(batch.labels.size());
  find_losses(differentiates ? d_labelled_ : d_labelled_.narrow(0));
  return {losses_, {}};
}

void Eagle3Pass::find_losses(Tensor d_labelled) {
  if (!distribution_) {
    ops_.cross_entropy(labelled_, frozen_.head, labels_, losses_.data(), d_labelled, {});
    return;
  }
  ops_.gather(final_hidden_, target_rows_, shape_.target_multiplier, of_target_);
  ops_.distribution_loss(labelled_, of_target_, frozen_.head, *distribution_, losses_.data(), d_labelled, {});
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
  ops_.rope(key_half(keys), shape_.head_dim, rotation_.at(positions));
}

BlockAttention Eagle3Pass::layout_of(int32_t s) const {
  return {shape_.heads, shape_.kv_heads, shape_.head_dim, s + 1, context_rows_, 0, contexts_};
}

void Eagle3Pass::place_keys(int32_t s) {
  const Tensor own = keys_.skip(context_rows_);
  for (int32_t earlier = 0; earlier <= s; ++earlier) {
    const Tensor to = last_of_each(own.narrow(blocks_ * (s + 1)), s + 1);
    const Tensor row = own.skip(earlier);
    ops_.copy(steps_[static_cast<size_t>(earlier)].keys, {row.data, to.rows, to.cols, to.stride, to.dtype});
  }
}

// Attention is that of blocks whose rows see each other: a step's rows come as the last ones of blocks of the rows so
// far, whose other queries are zeros.
void Eagle3Pass::step_forward(int32_t s) {
  const Step& step = steps_[static_cast<size_t>(s)];
  make_pairs(step.ids, input_of(s), step.pairs);
  make_keys(step.pairs, step.positions, step.keys);
  ops_.linear(step.pairs, parameters_.q.factor, Store::kOverwrite, q_);
  ops_.rope(q_, shape_.head_dim, rotation_.at(step.positions));
  ops_.scatter(q_, step.query_rows, ones_.row(0), Store::kOverwrite, step.q);
  place_keys(s);
  const Tensor keys = keys_.narrow(context_rows_ + blocks_ * (s + 1));
  ops_.attention(step.q, key_half(keys), value_half(keys), layout_of(s), step.out, step.log_sums);
  ops_.copy(input_of(s), step.middle);
  ops_.linear(last_of_each(step.out, s + 1), parameters_.o.factor, Store::kAdd, step.middle);

  const Tensor normed = normed_.narrow(blocks_);
  norm(step.middle, parameters_.mlp_norm, normed);
  ops_.linear(normed, parameters_.gate.factor, Store::kOverwrite, step.gate);
  ops_.linear(normed, parameters_.up.factor, Store::kOverwrite, step.up);
  ops_.silu_mul(step.gate, step.up, activation_);
  ops_.copy(step.middle, step.output);
  ops_.linear(activation_, parameters_.down.factor, Store::kAdd, step.output);
}

void Eagle3Pass::backward(const BlockBatch& batch, std::span<const float> weights, std::span<const float> /*chosen*/) {
  ASHLAR_CHECK_EQ(weights.size(), batch.labels.size());
  std::vector<float> scaled(weights.begin(), weights.end());
  for (float& weight : scaled) weight *= shape_.output_multiplier;
  ops_.upload(scaled.data(), static_cast<std::byte*>(weights_.data), scaled.size() * sizeof(float));
  ops_.scatter(d_labelled_, label_rows_, weights_.row(0), Store::kOverwrite, d_normed_);
  norm_backward(d_normed_, outputs_, parameters_.norm, Store::kOverwrite, d_outputs_);
  for (int32_t s = n_steps_; s-- > 0;) step_backward(s);
  context_backward();
  ops_.linear_weight_gradient(d_features_, aux_hidden_, parameters_.fc.gradient);
}

// d_output is the gradient of the residual stream: after the layer, in its middle, and before it, which is that of what
// the step before left.
void Eagle3Pass::step_backward(int32_t s) {
  const Step& step = steps_[static_cast<size_t>(s)];
  mlp_backward(step);
  attention_backward(s);
  keys_backward(step.d_keys, step.positions, step.pairs, Store::kAdd);
  pairs_backward(step.ids, input_of(s), step.d_output);
  if (s == 0) return ops_.scatter(step.d_output, feature_rows_, ones_.row(0), Store::kOverwrite, d_features_);
  const Tensor before = steps_[static_cast<size_t>(s - 1)].d_output;
  ops_.combine(1, before.row(0), 1, step.d_output.row(0), int64_t{before.rows} * before.cols, before.row(0));
}

void Eagle3Pass::mlp_backward(const Step& step) {
  const Tensor normed = normed_.narrow(blocks_);
  const Tensor d_normed = d_normed_.narrow(blocks_);
  norm(step.middle, parameters_.mlp_norm, normed);
  ops_.silu_mul(step.gate, step.up, activation_);
  ops_.linear_weight_gradient(step.d_output, activation_, parameters_.down.gradient);
  ops_.linear_input_gradient(step.d_output, parameters_.down.factor, Store::kOverwrite, activation_);
  const Tensor d_up = activation_;
  ops_.silu_mul_gradient(activation_, step.gate, step.up, d_gate_, d_up);
  ops_.linear_weight_gradient(d_gate_, normed, parameters_.gate.gradient);
  ops_.linear_weight_gradient(d_up, normed, parameters_.up.gradient);
  ops_.linear_input_gradient(d_gate_, parameters_.gate.factor, Store::kOverwrite, d_normed);
  ops_.linear_input_gradient(d_up, parameters_.up.factor, Store::kAdd, d_normed);
  norm_backward(d_normed, step.middle, parameters_.mlp_norm, Store::kAdd, step.d_output);
}

// Queries; what the step's attention says of keys is added to those of all steps up to it.
void Eagle3Pass::attention_backward(int32_t s) {
  const Step& step = steps_[static_cast<size_t>(s)];
  ops_.linear_weight_gradient(step.d_output, last_of_each(step.out, s + 1), parameters_.o.gradient);
  ops_.linear_input_gradient(step.d_output, parameters_.o.factor, Store::kOverwrite, d_attended_);
  const Tensor d_placed = d_placed_.narrow(blocks_ * (s + 1)), d_queries = d_queries_.narrow(blocks_ * (s + 1));
  ops_.scatter(d_attended_, step.query_rows, ones_.row(0), Store::kOverwrite, d_placed);
  place_keys(s);
  const int32_t rows = context_rows_ + blocks_ * (s + 1);
  const Tensor keys = keys_.narrow(rows), d_keys = d_keys_.narrow(rows);
  ops_.attention_gradient(d_placed, step.q, key_half(keys), value_half(keys), layout_of(s), step.out, step.log_sums,
                          d_queries, key_half(d_keys), value_half(d_keys));
  add_key_gradients(s);
  ops_.copy(last_of_each(d_queries, s + 1), d_q_);
  ops_.rope_gradient(d_q_, shape_.head_dim, rotation_.at(step.positions));
  ops_.linear_weight_gradient(d_q_, step.pairs, parameters_.q.gradient);
  ops_.linear_input_gradient(d_q_, parameters_.q.factor, Store::kOverwrite, d_pairs_.narrow(blocks_));
}

// The last step comes first and has something of all keys.
void Eagle3Pass::add_key_gradients(int32_t s) {
  const bool is_first = s + 1 == n_steps_;
  const auto add = [&](Tensor part, Tensor sum) {
    if (is_first) return;
    ops_.combine(1, sum.row(0), 1, part.row(0), int64_t{sum.rows} * sum.cols, sum.row(0));
  };
  const Tensor of_context = is_first ? d_context_ : part_.narrow(context_rows_);
  ops_.copy(d_keys_.narrow(context_rows_), of_context);
  add(of_context, d_context_);
  const Tensor own = d_keys_.skip(context_rows_);
  const Tensor sums = {steps_.front().d_keys.data, blocks_ * (s + 1), own.cols, own.cols};
  const Tensor parts = is_first ? sums : part_.narrow(sums.rows);
  for (int32_t earlier = 0; earlier <= s; ++earlier) {
    const Tensor row = own.skip(earlier);
    ops_.copy({row.data, blocks_, row.cols, row.stride * (s + 1), row.dtype}, parts.part(earlier * blocks_, blocks_));
  }
  add(parts, sums);
}

void Eagle3Pass::keys_backward(Tensor d_keys, const int32_t* positions, Tensor pairs, Store store) {
  const Tensor d_pairs = d_pairs_.narrow(pairs.rows);
  ops_.rope_gradient(key_half(d_keys), shape_.head_dim, rotation_.at(positions));
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
}

TrainedNetwork make_eagle3_network(TrainOps& ops, const TrainShape& shape, const TrainSettings& settings,
                                   const FrozenTables& frozen) {
  auto parameters = std::make_unique<Eagle3Parameters>(ops, shape, settings.compute);
  auto pass = std::make_unique<Eagle3Pass>(ops, shape, *parameters, frozen, settings.distribution);
  return {std::move(parameters), std::move(pass)};
}

}  // namespace ashlar
