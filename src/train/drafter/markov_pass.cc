// SPDX-License-Identifier: Apache-2.0
#include "train/drafter/markov_pass.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace ashlar {

MarkovPass::MarkovPass(TrainOps& ops, const TrainShape& shape, const MarkovParameters& parameters, Tensor head,
                       double rating_weight)
    : ops_(ops), shape_(shape), parameters_(parameters), head_(head), rating_weight_(rating_weight) {
  // The hidden state that is rated is the one that logits are made of.
  if (shape.markov->rated_width > 0) ASHLAR_CHECK_EQ(shape.output_multiplier, 1.0F);
}

void MarkovPass::lay_out(TensorRoom& room, int32_t label_rows, DType factor) {
  for (Tensor* t : {&weights_, &places_}) *t = room.take(1, label_rows);
  weighted_ = room.take(label_rows, rank(), factor);
  ratings_ = room.take(label_rows + 1, 1);
  sum_ = room.take(1, 1);
}

size_t MarkovPass::head_bytes() const {
  return bytes_of(head_.dtype) * static_cast<size_t>(head_.rows) * static_cast<size_t>(hidden() + rank());
}

// Allocated when it is first asked for: a pass may be made for its size alone.
void MarkovPass::refresh_joined_head() {
  if (memory_ == nullptr) {
    memory_ = ops_.allocate(head_bytes());
    joined_ = {memory_->data(), head_.rows, hidden() + rank(), hidden() + rank(), head_.dtype};
    ops_.copy(head_, joined_.columns(0, hidden()));
  }
  ops_.copy(parameters_.outputs.factor, codes_of(joined_));
}

void MarkovPass::add_codes(Tensor rows, const int32_t* before) {
  ops_.gather(parameters_.codes.factor, before, 1, codes_of(rows));
}

void MarkovPass::rate(Tensor rows, std::span<TokenLoss> losses, Tensor d_rows) {
  const int32_t width = shape_.markov->rated_width;
  if (width == 0) return;
  const auto n = static_cast<int32_t>(losses.size());
  const Tensor ratings = ratings_.narrow(n);
  ops_.linear(rows.columns(0, width), parameters_.rating.factor, Store::kOverwrite, ratings);
  ops_.copy(parameters_.rating_bias.value, ratings_.part(n, 1));  // one wait brings both
  d_ratings_.resize(losses.size() + 1);
  ops_.download(static_cast<const std::byte*>(ratings_.data), d_ratings_.data(), d_ratings_.size() * sizeof(float));
  const float bias = d_ratings_.back();
  d_ratings_.pop_back();
  for (size_t i = 0; i < losses.size(); ++i) {
    // A sum of many minima may round to slightly more than 1.
    const double logit = static_cast<double>(d_ratings_[i]) + bias;
    const double chance = std::clamp<double>(losses[i].probability, 0, 1);
    const double cross_entropy = std::max(logit, 0.0) - logit * chance + std::log1p(std::exp(-std::abs(logit)));
    losses[i].loss = static_cast<float>(losses[i].loss + rating_weight_ * cross_entropy);
    d_ratings_[i] = static_cast<float>(rating_weight_ * (1 / (1 + std::exp(-logit)) - chance));
  }
  if (d_rows.rows == 0) return;
  upload(d_ratings_, ratings);
  ops_.linear_input_gradient(ratings, parameters_.rating.factor, Store::kAdd, d_rows.columns(0, width));
}

void MarkovPass::backward(const LossRows& rows, std::span<const float> weights, const BlockBatch& batch,
                          Tensor d_rows) {
  std::vector<int32_t> places(weights.size());
  std::iota(places.begin(), places.end(), 0);
  ops_.upload(places.data(), static_cast<std::byte*>(places_.data), places.size() * sizeof(int32_t));
  upload(weights, weights_);
  ops_.scatter(codes_of(rows.hidden), static_cast<const int32_t*>(places_.data), weights_.row(0), Store::kOverwrite,
               weighted_);
  ops_.head_gradient(rows, weighted_, parameters_.outputs.gradient);
  if (const int32_t width = shape_.markov->rated_width; width > 0) {
    double sum = 0;
    for (size_t i = 0; i < weights.size(); ++i) sum += d_ratings_[i] *= weights[i];
    const Tensor ratings = ratings_.narrow(rows.hidden.rows);
    upload(d_ratings_, ratings);
    ops_.linear_weight_gradient(ratings, rows.hidden.columns(0, width), parameters_.rating.gradient);
    const auto of_bias = static_cast<float>(sum);
    upload({&of_bias, 1}, sum_);
    float* const gradient = parameters_.rating_bias.gradient.row(0);
    ops_.combine(1, sum_.row(0), 1, gradient, 1, gradient);
  }
  ops_.add_rows(codes_of(d_rows), batch.before, weights_.row(0), 1, parameters_.codes.gradient);
}

}  // namespace ashlar
