// SPDX-License-Identifier: Apache-2.0
#include "train/drafter/drafter_pass.h"

#include <algorithm>
#include <cmath>

namespace ashlar {

namespace {

/// Of whole blocks, since convolutions go along their rows.
TrainPieces whole_blocks(TrainPieces pieces, int32_t block) {
  pieces.rows = std::max(pieces.rows / block, 1) * block;
  return pieces;
}

}  // namespace

DrafterPass::DrafterPass(TrainOps& ops, const TrainShape& shape, const DrafterParameters& parameters,
                         const FrozenTables& frozen, std::optional<DistributionLoss> distribution, double rating_weight)
    : ops_(ops),
      shape_(shape),
      parameters_(parameters),
      frozen_(frozen),
      distribution_(distribution),
      rating_weight_(rating_weight),
      pieces_(whole_blocks(ops.pieces(), shape.block)),
      convolutions_(ops, shape_),
      rotation_(ops, shape.head_dim, shape.rope_theta) {
  if (shape_.selector) selector_.emplace(ops, shape_, parameters.selector, frozen.head);
  if (shape_.markov) markov_.emplace(ops, shape_, parameters.markov, frozen.head, rating_weight);
}

void DrafterPass::lay_out(TensorRoom& room, const Sizes& sizes) {
  const auto [context_rows, block_rows, label_rows, target_rows] = sizes;
  const int32_t width = shape_.heads * shape_.head_dim;
  const int32_t kv_width = shape_.kv_heads * shape_.head_dim;
  const int32_t keys = context_rows + block_rows;
  const DType factor = parameters_.factor_type();
  aux_hidden_ = room.take(context_rows, shape_.aux_width, factor);
  projected_ = room.take(context_rows, shape_.hidden);
  features_ = room.take(context_rows, shape_.hidden, factor);
  d_features_ = room.take(context_rows, shape_.hidden);
  layers_.resize(static_cast<size_t>(shape_.layers));
  for (size_t i = 0; i < layers_.size(); ++i) {
    Layer& layer = layers_[i];
    layer.sight = shape_.sight(static_cast<int32_t>(i));
    layer.input = room.take(block_rows, shape_.hidden);
    layer.middle = room.take(block_rows, shape_.hidden);
    for (Tensor* t : {&layer.q_raw, &layer.q, &layer.attended}) *t = room.take(block_rows, width, factor);
    for (Tensor* t : {&layer.k_raw, &layer.k, &layer.v}) *t = room.take(keys, kv_width, factor);
    for (Tensor* t : {&layer.gate, &layer.up}) *t = room.take(block_rows, shape_.intermediate, factor);
    layer.log_sums = room.take(block_rows, shape_.heads);
    layer.attention_conv = convolutions_.take(room, block_rows, factor);
    layer.mlp_conv = convolutions_.take(room, block_rows, factor);
  }
  for (Tensor* t : {&output_, &d_stream_, &d_normed_}) *t = room.take(block_rows, shape_.hidden);
  normed_ = room.take(block_rows, shape_.hidden, factor);
  convolutions_.lay_out(room, block_rows, factor);
  for (Tensor* t : {&activation_, &d_gate_}) {
    *t = room.take(std::min(block_rows, pieces_.rows), shape_.intermediate, factor);
  }
  for (Tensor* t : {&d_attended_, &d_q_}) *t = room.take(block_rows, width, factor);
  for (Tensor* t : {&d_k_, &d_v_}) *t = room.take(keys, kv_width, factor);
  labelled_ = room.take(label_rows, head_width(), factor);
  d_labelled_ = room.take(label_rows, head_width());
  weights_ = room.take(1, label_rows);
  if (selector_) selector_->lay_out(room, label_rows);
  if (markov_) markov_->lay_out(room, label_rows, factor);
  if (!distribution_) return;
  final_hidden_ = room.take(target_rows, shape_.hidden, factor);
  of_target_ = room.take(label_rows, shape_.hidden, factor);
}

size_t DrafterPass::bytes(int32_t context_rows, int32_t block_rows) const {
  DrafterPass copy(ops_, shape_, parameters_, frozen_, distribution_, rating_weight_);
  TensorRoom room(nullptr);
  copy.lay_out(room, {context_rows, block_rows, block_rows, context_rows});
  return room.size() + (markov_ ? markov_->head_bytes() : 0);
}

void DrafterPass::prepare(const BlockBatch& batch) {
  const int32_t block_rows = batch.block_rows();
  const auto label_rows = static_cast<int32_t>(batch.labels.size());
  attention_ = {.heads = shape_.heads,
                .kv_heads = shape_.kv_heads,
                .head_dim = shape_.head_dim,
                .block = shape_.block,
                .context_rows = batch.context_rows,
                .blocks = batch.blocks};
  const Sizes sizes = {batch.context_rows, block_rows, label_rows, batch.n_target_rows};
  memory_.place(ops_, [&](TensorRoom& room) { lay_out(room, sizes); });
  copy_parts(ops_, batch.aux_hidden, aux_hidden_);
  if (distribution_) {
    ASHLAR_CHECK_EQ(batch.target_rows.size(), batch.labels.size());
    copy_parts(ops_, batch.final_hidden, final_hidden_);
  }
  rotation_.reserve(batch.max_position);
  prepare_indices(batch);
}

void DrafterPass::prepare_indices(const BlockBatch& batch) {
  const std::vector<int32_t>* const parts[] = {&batch.ids,    &batch.positions, &batch.label_rows,
                                               &batch.labels, &batch.before,    &batch.target_rows};
  size_t n = 0;
  for (const std::vector<int32_t>* part : parts) n += part->size();
  if (indices_ == nullptr || indices_->size() < n * sizeof(int32_t)) indices_ = ops_.allocate(n * sizeof(int32_t));
  std::byte* to = indices_->data();
  int32_t* placed_indices[std::size(parts)];
  for (size_t i = 0; i < std::size(parts); ++i) {
    placed_indices[i] = reinterpret_cast<int32_t*>(to);
    ops_.upload(parts[i]->data(), to, parts[i]->size() * sizeof(int32_t));
    to += parts[i]->size() * sizeof(int32_t);
  }
  ids_ = placed_indices[0];
  positions_ = placed_indices[1];
  label_rows_ = placed_indices[2];
  labels_ = placed_indices[3];
  before_ = placed_indices[4];
  target_rows_ = placed_indices[5];
}

BlockAttention DrafterPass::attention_of(const Layer& layer) const {
  BlockAttention out = attention_;
  out.window = layer.sight.window;
  out.causal = layer.sight.causal;
  return out;
}

void DrafterPass::rotate_rows(Tensor queries, Tensor keys, bool back) {
  const RowRotation of_keys = rotation_.at(positions_);
  const RowRotation of_queries = rotation_.at(positions_ + attention_.context_rows);
  if (back) {
    ops_.rope_gradient(queries, shape_.head_dim, of_queries);
    ops_.rope_gradient(keys, shape_.head_dim, of_keys);
  } else {
    ops_.rope(queries, shape_.head_dim, of_queries);
    ops_.rope(keys, shape_.head_dim, of_keys);
  }
}

BlockLosses DrafterPass::forward(const BlockBatch& batch, bool differentiates) {
  prepare(batch);
  ops_.linear(aux_hidden_, parameters_.fc.factor, Store::kOverwrite, projected_);
  norm(projected_, parameters_.hidden_norm, features_);
  ops_.gather(frozen_.embedding, ids_, shape_.embedding_scale, layers_.front().input);
  for (size_t i = 0; i < layers_.size(); ++i) {
    attention_forward(parameters_.layers[i], layers_[i]);
    mlp_forward(parameters_.layers[i], layers_[i], i + 1 < layers_.size() ? layers_[i + 1].input : output_);
  }
  norm(output_, parameters_.norm, normed_);
  ops_.gather(normed_, label_rows_, shape_.output_multiplier, hidden_of(labelled_));
  if (markov_) markov_->add_codes(labelled_, before_);
  losses_.resize(batch.labels.size());
  const Tensor d_labelled = differentiates ? d_labelled_ : d_labelled_.narrow(0);
  find_losses(d_labelled);
  if (markov_) markov_->rate(labelled_, losses_, d_labelled);
  if (!selector_) return {losses_, {}};
  return {losses_, selector_->forward(labelled_, labels_, before_)};
}

void DrafterPass::find_losses(Tensor d_labelled) {
  const Candidates candidates = selector_ ? selector_->candidates() : Candidates{};
  const Tensor head = markov_ ? markov_->joined_head() : frozen_.head;
  if (!distribution_) {
    rows_ = {labelled_, head, labels_};
    ops_.cross_entropy(labelled_, head, labels_, losses_.data(), d_labelled, candidates);
    return;
  }
  ops_.gather(final_hidden_, target_rows_, shape_.target_multiplier, of_target_);
  rows_ = {labelled_, head, nullptr, of_target_, *distribution_};
  ops_.distribution_loss(labelled_, of_target_, head, *distribution_, losses_.data(), d_labelled, candidates);
}

/// fn(first, n) for parts of the block rows.
template <class Fn>
void DrafterPass::for_parts(const Fn& fn) {
  for (int32_t first = 0; first < output_.rows; first += pieces_.rows) {
    fn(first, std::min(pieces_.rows, output_.rows - first));
  }
}

void DrafterPass::attention_forward(const DrafterLayerParameters& p, const Layer& layer) {
  ops_.linear(features_, p.k.factor, Store::kOverwrite, context(layer.k_raw));
  ops_.linear(features_, p.v.factor, Store::kOverwrite, context(layer.v));
  for_parts([&](int32_t first, int32_t n) {
    const Tensor normed = normed_.narrow(n);
    norm(layer.input.part(first, n), p.input_norm, normed);
    const Tensor in = convolutions_.enter(p.attention_conv, normed, layer.attention_conv.part(first, n));
    ops_.linear(in, p.q.factor, Store::kOverwrite, layer.q_raw.part(first, n));
    ops_.linear(in, p.k.factor, Store::kOverwrite, own(layer.k_raw).part(first, n));
    ops_.linear(in, p.v.factor, Store::kOverwrite, own(layer.v).part(first, n));
  });
  norm(heads_of(layer.q_raw), p.q_norm, heads_of(layer.q));
  norm(heads_of(layer.k_raw), p.k_norm, heads_of(layer.k));
  rotate_rows(layer.q, layer.k, false);
  ops_.attention(layer.q, layer.k, layer.v, attention_of(layer), layer.attended, layer.log_sums);
  ops_.copy(layer.input, layer.middle);
  convolutions_.leave(p.attention_conv, layer.attended, p.o.factor, layer.attention_conv, layer.middle);
}

void DrafterPass::mlp_forward(const DrafterLayerParameters& p, const Layer& layer, Tensor next) {
  for_parts([&](int32_t first, int32_t n) {
    const Tensor middle = layer.middle.part(first, n);
    const Tensor gate = layer.gate.part(first, n);
    const Tensor up = layer.up.part(first, n);
    const Tensor normed = normed_.narrow(n);
    const Tensor activation = activation_.narrow(n);
    const ConvPass::Saved saved = layer.mlp_conv.part(first, n);
    norm(middle, p.mlp_norm, normed);
    const Tensor in = convolutions_.enter(p.mlp_conv, normed, saved);
    ops_.linear(in, p.gate.factor, Store::kOverwrite, gate);
    ops_.linear(in, p.up.factor, Store::kOverwrite, up);
    ops_.silu_mul(gate, up, activation);
    ops_.copy(middle, next.part(first, n));
    convolutions_.leave(p.mlp_conv, activation, p.down.factor, saved, next.part(first, n));
  });
}

void DrafterPass::backward(const BlockBatch& batch, std::span<const float> weights, std::span<const float> chosen) {
  ASHLAR_CHECK_EQ(weights.size(), batch.labels.size());
  std::vector<float> scaled(weights.begin(), weights.end());
  for (float& weight : scaled) weight *= shape_.output_multiplier;
  ops_.upload(scaled.data(), static_cast<std::byte*>(weights_.data), scaled.size() * sizeof(float));
  ops_.scatter(hidden_of(d_labelled_), label_rows_, weights_.row(0), Store::kOverwrite, d_normed_);
  if (selector_) selector_->backward(label_rows_, chosen, d_normed_);
  norm_backward(d_normed_, output_, parameters_.norm, Store::kOverwrite, d_stream_);
  for (size_t i = layers_.size(); i-- > 0;) {
    mlp_backward(parameters_.layers[i], layers_[i]);
    attention_backward(parameters_.layers[i], layers_[i], i + 1 == layers_.size());
  }
  if (attention_.context_rows > 0) {
    norm_backward(d_features_, projected_, parameters_.hidden_norm, Store::kOverwrite, d_features_);
    ops_.linear_weight_gradient(d_features_, aux_hidden_, parameters_.fc.gradient);
  }
  if (selector_) selector_->backward_codes(batch);
  if (markov_) markov_->backward(rows_, weights, batch, d_labelled_);
}

// d_stream_ is the gradient of the residual stream: after the layer, then in its middle.
void DrafterPass::mlp_backward(const DrafterLayerParameters& p, const Layer& layer) {
  for_parts([&](int32_t first, int32_t n) {
    const Tensor middle = layer.middle.part(first, n);
    const Tensor gate = layer.gate.part(first, n);
    const Tensor up = layer.up.part(first, n);
    const ConvPass::Saved saved = layer.mlp_conv.part(first, n);
    const Tensor d_output = convolutions_.leave_backward(p.mlp_conv, d_stream_.part(first, n), saved);
    const Tensor normed = normed_.narrow(n);
    const Tensor activation = activation_.narrow(n);
    const Tensor d_gate = d_gate_.narrow(n);
    const Tensor d_normed = d_normed_.narrow(n);
    const Tensor d_in = convolutions_.d_entered(d_normed);
    norm(middle, p.mlp_norm, normed);
    const Tensor in = convolutions_.enter_again(p.mlp_conv, normed, saved);
    ops_.silu_mul(gate, up, activation);
    ops_.linear_weight_gradient(d_output, activation, p.down.gradient);
    ops_.linear_input_gradient(d_output, p.down.factor, Store::kOverwrite, activation);
    const Tensor d_up = activation;
    ops_.silu_mul_gradient(activation, gate, up, d_gate, d_up);
    ops_.linear_weight_gradient(d_gate, in, p.gate.gradient);
    ops_.linear_weight_gradient(d_up, in, p.up.gradient);
    ops_.linear_input_gradient(d_gate, p.gate.factor, Store::kOverwrite, d_in);
    ops_.linear_input_gradient(d_up, p.up.factor, Store::kAdd, d_in);
    convolutions_.enter_backward(p.mlp_conv, normed, saved, 0, d_normed);
    norm_backward(d_normed, middle, p.mlp_norm, Store::kAdd, d_stream_.part(first, n));
  });
}

// In the middle of the layer, then before it. `is_first`: nothing has been added to d_features_ yet.
void DrafterPass::attention_backward(const DrafterLayerParameters& p, const Layer& layer, bool is_first) {
  const Tensor d_output = convolutions_.leave_backward(p.attention_conv, d_stream_, layer.attention_conv);
  ops_.linear_weight_gradient(d_output, layer.attended, p.o.gradient);
  ops_.linear_input_gradient(d_output, p.o.factor, Store::kOverwrite, d_attended_);
  ops_.attention_gradient(d_attended_, layer.q, layer.k, layer.v, attention_of(layer), layer.attended, layer.log_sums,
                          d_q_, d_k_, d_v_);
  rotate_rows(d_q_, d_k_, true);
  norm_backward(heads_of(d_q_), heads_of(layer.q_raw), p.q_norm, Store::kOverwrite, heads_of(d_q_));
  norm_backward(heads_of(d_k_), heads_of(layer.k_raw), p.k_norm, Store::kOverwrite, heads_of(d_k_));

  ops_.linear_weight_gradient(context(d_k_), features_, p.k.gradient);
  ops_.linear_weight_gradient(context(d_v_), features_, p.v.gradient);
  ops_.linear_input_gradient(context(d_k_), p.k.factor, is_first ? Store::kOverwrite : Store::kAdd, d_features_);
  ops_.linear_input_gradient(context(d_v_), p.v.factor, Store::kAdd, d_features_);
  for_parts([&](int32_t first, int32_t n) {
    const Tensor d_q = d_q_.part(first, n);
    const Tensor d_k = own(d_k_).part(first, n);
    const Tensor d_v = own(d_v_).part(first, n);
    const Tensor normed = normed_.narrow(n);
    const Tensor d_normed = d_normed_.narrow(n);
    const Tensor d_in = convolutions_.d_entered(d_normed);
    const ConvPass::Saved saved = layer.attention_conv.part(first, n);
    norm(layer.input.part(first, n), p.input_norm, normed);
    const Tensor in = convolutions_.enter_again(p.attention_conv, normed, saved);
    ops_.linear_weight_gradient(d_q, in, p.q.gradient);
    ops_.linear_weight_gradient(d_k, in, p.k.gradient);
    ops_.linear_weight_gradient(d_v, in, p.v.gradient);
    ops_.linear_input_gradient(d_q, p.q.factor, Store::kOverwrite, d_in);
    ops_.linear_input_gradient(d_k, p.k.factor, Store::kAdd, d_in);
    ops_.linear_input_gradient(d_v, p.v.factor, Store::kAdd, d_in);
    convolutions_.enter_backward(p.attention_conv, normed, saved, first, d_normed);
    norm_backward(d_normed, layer.input.part(first, n), p.input_norm, Store::kAdd, d_stream_.part(first, n));
  });
}

TrainedNetwork make_block_network(TrainOps& ops, const TrainShape& shape, const TrainSettings& settings,
                                  const FrozenTables& frozen) {
  auto parameters = std::make_unique<DrafterParameters>(ops, shape, settings.compute);
  auto pass =
      std::make_unique<DrafterPass>(ops, shape, *parameters, frozen, settings.distribution, settings.rating_weight);
  return {std::move(parameters), std::move(pass)};
}

}  // namespace ashlar
