// SPDX-License-Identifier: Apache-2.0
#include "train/drafter/selector_pass.h"

namespace ashlar {

void SelectorPass::lay_out(TensorRoom& room, int32_t label_rows) {
  const int32_t n = shape_.selector->candidates, rank = shape_.selector->rank;
  ids_ = room.take(label_rows, n);
  logits_ = room.take(label_rows, n);
  projected_ = room.take(label_rows, rank);
  weights_ = room.take(2, label_rows);
  gradients_.hidden = room.take(label_rows, shape_.hidden);
  for (Tensor* t : {&gradients_.projected, &gradients_.before, &gradients_.after}) *t = room.take(label_rows, rank);
}

Candidates SelectorPass::candidates() const {
  return {ids_.cols, static_cast<int32_t*>(ids_.data), static_cast<float*>(logits_.data)};
}

// What logits are made of is the final hidden state times a constant, by which the projection of it is too large.
std::span<const TokenLoss> SelectorPass::forward(Tensor hidden, const int32_t* labels, const int32_t* before) {
  ops_.linear(hidden, parameters_.projection.factor, Store::kOverwrite, projected_);
  rows_ = {candidates(),
           labels,
           before,
           hidden,
           head_,
           projected_,
           parameters_.predecessors.factor,
           parameters_.successors.factor,
           1 / shape_.output_multiplier};
  losses_.resize(static_cast<size_t>(hidden.rows));
  ops_.candidate_loss(rows_, losses_.data());
  return losses_;
}

void SelectorPass::backward(const int32_t* label_rows, std::span<const float> weights, Tensor d_normed) {
  ASHLAR_CHECK_EQ(weights.size(), losses_.size());
  found_.resize(losses_.size() * static_cast<size_t>(ids_.cols));
  ops_.download(static_cast<const std::byte*>(ids_.data), found_.data(), found_.size() * sizeof(int32_t));
  const std::vector<float> multipliers(weights.size(), shape_.output_multiplier);
  ops_.upload(weights.data(), reinterpret_cast<std::byte*>(weights_.row(0)), weights.size_bytes());
  ops_.upload(multipliers.data(), reinterpret_cast<std::byte*>(weights_.row(1)), weights.size_bytes());
  ops_.candidate_gradient(rows_, weights_.row(0), gradients_);
  ops_.linear_weight_gradient(gradients_.projected, rows_.hidden, parameters_.projection.gradient);
  ops_.linear_input_gradient(gradients_.projected, parameters_.projection.factor, Store::kAdd, gradients_.hidden);
  ops_.scatter(gradients_.hidden, label_rows, weights_.row(1), Store::kAdd, d_normed);
}

void SelectorPass::backward_codes(const BlockBatch& batch) {
  ops_.add_rows(gradients_.before, batch.before, nullptr, 1, parameters_.predecessors.gradient);
  ops_.add_rows(gradients_.after, found_, logits_.row(0), 1, parameters_.successors.gradient);
}

}  // namespace ashlar
