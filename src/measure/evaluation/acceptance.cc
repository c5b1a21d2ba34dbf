// SPDX-License-Identifier: Apache-2.0
#include "measure/evaluation/acceptance.h"

#include <algorithm>
#include <limits>

namespace ashlar {
namespace {

void add_counts(std::vector<int64_t>& sum, const std::vector<int32_t>& counts, size_t first) {
  if (counts.size() > first) sum.resize(std::max(sum.size(), counts.size() - first));
  for (size_t i = first; i < counts.size(); ++i) sum[i - first] += counts[i];
}

}  // namespace

void AcceptanceTally::add(const RequestStats& stats) {
  ++prompts_;
  generated_ += stats.generated_tokens;
  steps_ += stats.verify_steps;
  drafted_ += stats.drafted;
  accepted_ += stats.accepted;
  add_counts(accepted_at_, stats.accepted_at, 0);
  add_counts(drafted_at_, stats.drafted_at, 0);
  add_counts(lengths_, stats.lengths, 1);
  const RequestStats::Decoding decoding = stats.decoding();
  decode_tokens_ += decoding.tokens;
  decode_ns_ += decoding.ns;
  if (stats.verify_steps == 0) return;
  double tokens = 0;
  for (size_t n = 1; n < stats.lengths.size(); ++n) tokens += static_cast<double>(n) * stats.lengths[n];
  prompt_tokens_.push_back(tokens);
  prompt_generated_.push_back(stats.generated_tokens);
  prompt_steps_.push_back(stats.verify_steps);
}

Ratio AcceptanceTally::acceptance_length_per_prompt() const {
  std::vector<double> means;
  for (size_t i = 0; i < prompt_steps_.size(); ++i) means.push_back(prompt_tokens_[i] / prompt_steps_[i]);
  return {mean(means), standard_error(means), means.size()};
}

std::vector<double> AcceptanceTally::unconditional() const {
  std::vector<double> shares;
  for (size_t k = 0; k < drafted_at_.size() && drafted_at_[k] > 0; ++k) {
    shares.push_back(static_cast<double>(accepted_at_[k]) / static_cast<double>(drafted_at_[k]));
  }
  return shares;
}

std::vector<double> AcceptanceTally::conditional(int64_t least) const {
  std::vector<double> shares = unconditional();
  double before = 1;
  int64_t count = steps_;
  for (size_t k = 0; k < shares.size(); ++k) {
    const double own = shares[k];
    shares[k] = count >= least && before > 0 ? std::min(own / before, 1.0) : std::numeric_limits<double>::quiet_NaN();
    before = own;
    count = accepted_at_[k];
  }
  return shares;
}

std::vector<double> AcceptanceTally::histogram() const {
  size_t n = lengths_.size();
  while (n > 0 && lengths_[n - 1] == 0) --n;
  std::vector<double> shares;
  for (size_t i = 0; i < n; ++i) shares.push_back(static_cast<double>(lengths_[i]) / static_cast<double>(steps_));
  return shares;
}

double AcceptanceTally::decode_tokens_per_second() const {
  return decode_ns_ > 0 ? static_cast<double>(decode_tokens_) * 1e9 / static_cast<double>(decode_ns_) : 0;
}

}  // namespace ashlar
