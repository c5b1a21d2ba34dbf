// SPDX-License-Identifier: Apache-2.0
#include "train/chain/chain_pass.h"

#include <algorithm>

namespace ashlar {
namespace {

/// One row of each block: the last of `n` that a step's attention has of it.
Tensor last_of_each(Tensor x, int32_t n) {
  const Tensor from = x.skip(n - 1);
  return {from.data, x.rows / n, x.cols, x.stride * n, x.dtype};
}

}  // namespace

ChainPass::ChainPass(TrainOps& ops, const TrainShape& shape, DType factor, int32_t rotary_dim, const ChainMlp& mlp,
                     const FrozenTables& frozen, std::optional<DistributionLoss> distribution)
    : ops_(ops),
      shape_(shape),
      factor_(factor),
      frozen_(frozen),
      distribution_(distribution),
      n_steps_(shape.block - 1),
      rotary_dim_(rotary_dim),
      mlp_(mlp),
      rotation_(ops, rotary_dim, shape.rope_theta) {
  ASHLAR_CHECK_EQ(shape.layers, 1);
  ASHLAR_CHECK(shape.sights.empty() && !shape.convolutions && !shape.selector);
}

void ChainPass::lay_out(TensorRoom& room, const Sizes& sizes) {
  const auto [context_rows, blocks, label_rows, target_rows] = sizes;
  const int32_t hidden = shape_.hidden, steps = n_steps_;
  const int32_t rows = steps * blocks, either = std::max(context_rows, blocks);
  aux_hidden_ = room.take(context_rows, shape_.aux_width, factor_);
  for (Tensor* t : {&keys_, &d_keys_}) *t = room.take(context_rows + rows, 2 * kv_width(), factor_);
  for (Tensor* t : {&outputs_, &d_outputs_, &d_states_}) *t = room.take(rows, hidden);
  states_ = room.take(rows, hidden, factor_);
  const Tensor d_keys = room.take(rows, 2 * kv_width());
  steps_.resize(static_cast<size_t>(steps));
  for (int32_t s = 0; s < steps; ++s) {
    Step& now = step(s);
    now.keys = room.take(blocks, 2 * kv_width(), factor_);
    for (Tensor* t : {&now.q, &now.out}) *t = room.take(blocks * (s + 1), width(), factor_);
    now.log_sums = room.take(blocks * (s + 1), shape_.heads);
    now.middle = room.take(blocks, hidden);
    for (Tensor* t : {&now.gate, &now.up}) *t = room.take(blocks, shape_.intermediate, factor_);
    now.output = outputs_.part(s * blocks, blocks);
    now.d_output = d_outputs_.part(s * blocks, blocks);
    now.state = states_.part(s * blocks, blocks);
    now.d_state = d_states_.part(s * blocks, blocks);
    now.d_keys = d_keys.part(s * blocks, blocks);
  }
  for (Tensor* t : {&q_, &d_q_, &d_attended_}) *t = room.take(blocks, width(), factor_);
  for (Tensor* t : {&d_placed_, &d_queries_}) *t = room.take(rows, width(), factor_);
  part_ = room.take(std::max(context_rows, rows), 2 * kv_width());
  d_context_ = room.take(context_rows, 2 * kv_width());
  for (Tensor* t : {&activation_, &d_gate_}) *t = room.take(blocks, shape_.intermediate, factor_);
  normed_ = room.take(either, hidden, factor_);
  d_normed_ = room.take(either, hidden);
  labelled_ = room.take(label_rows, hidden, factor_);
  d_labelled_ = room.take(label_rows, hidden);
  weights_ = room.take(1, label_rows);
  ones_ = room.take(1, blocks);
  if (!distribution_) return;
  final_hidden_ = room.take(target_rows, hidden, factor_);
  of_target_ = room.take(label_rows, hidden, factor_);
}

void ChainPass::prepare(const BlockBatch& batch) {
  const ChainBatch rows(batch, n_steps_);
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

void ChainPass::prepare_indices(const BlockBatch& batch, const ChainBatch& rows) {
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

BlockLosses ChainPass::forward(const BlockBatch& batch, bool differentiates) {
  prepare(batch);
  context_forward();
  for (int32_t s = 0; s < n_steps_; ++s) step_forward(s);
  states_forward();
  ops_.gather(states_, label_rows_, shape_.output_multiplier, labelled_);
  losses_.resize(batch.labels.size());
  find_losses(differentiates ? d_labelled_ : d_labelled_.narrow(0));
  return {losses_, {}};
}

void ChainPass::find_losses(Tensor d_labelled) {
  if (!distribution_) {
    ops_.cross_entropy(labelled_, frozen_.head, labels_, losses_.data(), d_labelled, {});
    return;
  }
  ops_.gather(final_hidden_, target_rows_, shape_.target_multiplier, of_target_);
  ops_.distribution_loss(labelled_, of_target_, frozen_.head, *distribution_, losses_.data(), d_labelled, {});
}

void ChainPass::backward(const BlockBatch& batch, std::span<const float> weights, std::span<const float> /*chosen*/) {
  ASHLAR_CHECK_EQ(weights.size(), batch.labels.size());
  std::vector<float> scaled(weights.begin(), weights.end());
  for (float& weight : scaled) weight *= shape_.output_multiplier;
  ops_.upload(scaled.data(), static_cast<std::byte*>(weights_.data), scaled.size() * sizeof(float));
  ops_.scatter(d_labelled_, label_rows_, weights_.row(0), Store::kOverwrite, d_states_);
  states_backward();
  for (int32_t s = n_steps_; s-- > 0;) step_backward(s);
  context_backward();
}

void ChainPass::rotate(Tensor rows, const int32_t* positions, bool back) {
  const RowRotation rotation = rotation_.at(positions);
  const auto turn = [&](Tensor part) {
    if (back) return ops_.rope_gradient(part, rotary_dim_, rotation);
    ops_.rope(part, rotary_dim_, rotation);
  };
  if (rotary_dim_ == shape_.head_dim) return turn(rows);
  for (int32_t at = 0; at < rows.cols; at += shape_.head_dim) turn(rows.columns(at, rotary_dim_));
}

BlockAttention ChainPass::layout_of(int32_t s) const {
  return {.heads = shape_.heads,
          .kv_heads = shape_.kv_heads,
          .head_dim = shape_.head_dim,
          .block = s + 1,
          .context_rows = context_rows_,
          .blocks = contexts_};
}

void ChainPass::place_keys(int32_t s) {
  const Tensor own = keys_.skip(context_rows_);
  for (int32_t earlier = 0; earlier <= s; ++earlier) {
    const Tensor to = last_of_each(own.narrow(blocks_ * (s + 1)), s + 1);
    const Tensor row = own.skip(earlier);
    ops_.copy(step(earlier).keys, {row.data, to.rows, to.cols, to.stride, to.dtype});
  }
}

// Attention is that of blocks whose rows see each other: a step's rows come as the last ones of blocks of the rows so
// far, whose other queries are zeros.
void ChainPass::attend(int32_t s) {
  const Step& now = step(s);
  ops_.scatter(q_, now.query_rows, ones_.row(0), Store::kOverwrite, now.q);
  place_keys(s);
  const Tensor keys = keys_.narrow(context_rows_ + blocks_ * (s + 1));
  ops_.attention(now.q, key_half(keys), value_half(keys), layout_of(s), now.out, now.log_sums);
}

Tensor ChainPass::attended(int32_t s) const { return last_of_each(step(s).out, s + 1); }

void ChainPass::attend_backward(int32_t s, Tensor d_attended) {
  const Step& now = step(s);
  const Tensor d_placed = d_placed_.narrow(blocks_ * (s + 1)), d_queries = d_queries_.narrow(blocks_ * (s + 1));
  ops_.scatter(d_attended, now.query_rows, ones_.row(0), Store::kOverwrite, d_placed);
  place_keys(s);
  const int32_t rows = context_rows_ + blocks_ * (s + 1);
  const Tensor keys = keys_.narrow(rows), d_keys = d_keys_.narrow(rows);
  ops_.attention_gradient(d_placed, now.q, key_half(keys), value_half(keys), layout_of(s), now.out, now.log_sums,
                          d_queries, key_half(d_keys), value_half(d_keys));
  add_key_gradients(s);
  ops_.copy(last_of_each(d_queries, s + 1), d_q_);
}

// The last step comes first and has something of all keys.
void ChainPass::add_key_gradients(int32_t s) {
  const bool is_first = s + 1 == n_steps_;
  const Tensor of_context = is_first ? d_context_ : part_.narrow(context_rows_);
  ops_.copy(d_keys_.narrow(context_rows_), of_context);
  if (!is_first) add(of_context, d_context_);
  const Tensor own = d_keys_.skip(context_rows_);
  const Tensor sums = {step(0).d_keys.data, blocks_ * (s + 1), own.cols, own.cols};
  const Tensor parts = is_first ? sums : part_.narrow(sums.rows);
  for (int32_t earlier = 0; earlier <= s; ++earlier) {
    const Tensor row = own.skip(earlier);
    ops_.copy({row.data, blocks_, row.cols, row.stride * (s + 1), row.dtype}, parts.part(earlier * blocks_, blocks_));
  }
  if (!is_first) add(parts, sums);
}

void ChainPass::mlp_forward(const Step& now) {
  const Tensor normed = normed_.narrow(blocks_);
  norm(now.middle, mlp_.norm, normed);
  ops_.linear(normed, mlp_.gate.factor, Store::kOverwrite, now.gate);
  ops_.linear(normed, mlp_.up.factor, Store::kOverwrite, now.up);
  ops_.silu_mul(now.gate, now.up, activation_);
  ops_.copy(now.middle, now.output);
  ops_.linear(activation_, mlp_.down.factor, Store::kAdd, now.output);
}

void ChainPass::mlp_backward(const Step& now) {
  const Tensor normed = normed_.narrow(blocks_);
  const Tensor d_normed = d_normed_.narrow(blocks_);
  norm(now.middle, mlp_.norm, normed);
  ops_.silu_mul(now.gate, now.up, activation_);
  ops_.linear_weight_gradient(now.d_output, activation_, mlp_.down.gradient);
  ops_.linear_input_gradient(now.d_output, mlp_.down.factor, Store::kOverwrite, activation_);
  const Tensor d_up = activation_;
  ops_.silu_mul_gradient(activation_, now.gate, now.up, d_gate_, d_up);
  ops_.linear_weight_gradient(d_gate_, normed, mlp_.gate.gradient);
  ops_.linear_weight_gradient(d_up, normed, mlp_.up.gradient);
  ops_.linear_input_gradient(d_gate_, mlp_.gate.factor, Store::kOverwrite, d_normed);
  ops_.linear_input_gradient(d_up, mlp_.up.factor, Store::kAdd, d_normed);
  norm_backward(d_normed, now.middle, mlp_.norm, Store::kAdd, now.d_output);
}

}  // namespace ashlar
