// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "device/ref/ref_kernels.h"

namespace ashlar::ref {
namespace {

constexpr float kLowest = -std::numeric_limits<float>::infinity();

// Computed in double and rounded once.
std::vector<float> scores_of(const float* logits, int32_t n, Routing::Score score) {
  std::vector<float> scores(n);
  if (score == Routing::Score::kSigmoid) {
    for (int32_t e = 0; e < n; ++e) scores[e] = static_cast<float>(1.0 / (1.0 + std::exp(-double{logits[e]})));
    return scores;
  }
  const double highest = *std::max_element(logits, logits + n);
  double total = 0;
  for (int32_t e = 0; e < n; ++e) total += std::exp(logits[e] - highest);
  for (int32_t e = 0; e < n; ++e) scores[e] = static_cast<float>(std::exp(logits[e] - highest) / total);
  return scores;
}

// Indices by descending value; equal values by ascending index.
std::vector<int32_t> ranked(const std::vector<float>& values) {
  std::vector<int32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return values[a] > values[b]; });
  return order;
}

void drop_groups(const Routing& routing, std::vector<float>& ranks) {
  const auto size = static_cast<int32_t>(ranks.size()) / routing.n_groups;
  std::vector<float> groups;
  for (int32_t g = 0; g < routing.n_groups; ++g) {
    std::vector<float> members(ranks.begin() + g * size, ranks.begin() + (g + 1) * size);
    std::sort(members.begin(), members.end(), std::greater<>());
    groups.push_back(size > 1 ? members[0] + members[1] : members[0]);
  }
  const std::vector<int32_t> order = ranked(groups);
  for (int32_t i = routing.top_groups; i < routing.n_groups; ++i) {
    std::fill_n(ranks.begin() + order[i] * size, size, kLowest);
  }
}

}  // namespace

void route(const float* logits, const ExpertFactors& factors, int32_t n, const Routing& routing, int32_t* experts,
           float* weights) {
  const std::vector<float> scores = scores_of(logits, n, routing.score);
  std::vector<float> ranks = scores;
  for (int32_t e = 0; e < n && factors.bias != nullptr; ++e) ranks[e] += factors.bias[e];
  for (float& rank : ranks) rank = std::isnan(rank) ? kLowest : rank;
  drop_groups(routing, ranks);
  const std::vector<int32_t> order = ranked(ranks);
  float sum = 0;
  for (int32_t j = 0; j < routing.top_k; ++j) {
    experts[j] = order[j];
    weights[j] = scores[order[j]];
    sum += weights[j];
  }
  for (int32_t j = 0; j < routing.top_k; ++j) {
    if (routing.normalise) weights[j] /= sum + 1e-20F;
    weights[j] *= routing.scale;
    if (factors.scale != nullptr) weights[j] *= factors.scale[experts[j]];
  }
}

}  // namespace ashlar::ref
