// SPDX-License-Identifier: Apache-2.0
#include "model/drafters/heads/candidate_numbers.h"

#include <algorithm>
#include <cmath>

namespace ashlar {
namespace {

constexpr double kEps = 1e-5;             // of the layer norm
constexpr float kMinLogprob = -10000.0F;  // of what a row has no token for

}  // namespace

CandidateNumbers::CandidateNumbers(int32_t n, const std::vector<float>& weight, const std::vector<float>& bias)
    : n_(n) {
  ASHLAR_CHECK(n <= kMaxTopLogprobs && weight.size() == weight_.size() && bias.size() == bias_.size());
  std::copy(weight.begin(), weight.end(), weight_.begin());
  std::copy(bias.begin(), bias.end(), bias_.begin());
}

void CandidateNumbers::reserve(int32_t rows) {
  requests_.reserve(static_cast<size_t>(rows));
  choices_.resize(static_cast<size_t>(rows));
  found_.reserve(static_cast<size_t>(rows));
  ids_.reserve(static_cast<size_t>(rows) * static_cast<size_t>(n_));
  normed_.reserve(ids_.capacity());
}

void CandidateNumbers::find(Ops& ops, Tensor logits) {
  requests_.clear();
  for (int32_t r = 0; r < logits.rows; ++r) {
    RowRequest& request = requests_.emplace_back();
    request.row = r;
    request.params = &plain_;
    request.top_logprobs = n_;
  }
  const std::span<RowChoice> choices = std::span(choices_).first(requests_.size());
  ops.choose(logits, requests_, choices);
  ids_.clear();
  found_.clear();
  normed_.clear();
  for (const RowChoice& choice : choices) add(choice.logprobs);
}

void CandidateNumbers::add(const TokenLogprobs& row) {
  // What is no number is listed last, if at all.
  int32_t found = 0;
  while (found < std::min(row.n_top, n_) && row.top_values[found] > kMinLogprob) ++found;
  found_.push_back(found);
  for (int32_t j = 0; j < n_; ++j) {
    const bool is_there = j < found;
    const float logprob = is_there ? row.top_values[j] : kMinLogprob;
    const float highest = found > 0 ? row.top_values[0] : kMinLogprob;
    ids_.push_back(is_there ? row.top_ids[j] : 0);
    const double rank = n_ > 1 ? static_cast<double>(j) / (n_ - 1) : 0.0;
    const double values[kCount] = {logprob, std::exp(logprob), logprob - highest, rank, j == 0 ? 1.0 : 0.0};
    double mean = 0, variance = 0;
    for (const double value : values) mean += value / kCount;
    for (const double value : values) variance += (value - mean) * (value - mean) / kCount;
    Numbers& normed = normed_.emplace_back();
    for (size_t i = 0; i < normed.size(); ++i) {
      normed[i] = static_cast<float>((values[i] - mean) / std::sqrt(variance + kEps)) * weight_[i] + bias_[i];
    }
  }
}

}  // namespace ashlar
