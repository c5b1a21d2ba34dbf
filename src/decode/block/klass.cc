// SPDX-License-Identifier: Apache-2.0
// Unmasks masked positions that are confident and stable: the token's probability is above a threshold and the row's
// distribution hardly moved in the newest passes; if there is none, the most confident masked position (KLASS, arXiv
// 2511.05664).
//
// Rows are not kept, so the divergence KL(p_t || p_{t-1}) of a row is replaced by that of the event "the likeliest
// token of now" against its complement,
//   d(p || q) = p ln(p / q) + (1 - p) ln((1 - p) / (1 - q)),
// with p, q that token's probability now and a pass before. By the log-sum inequality it is a lower bound: a row that
// moved only among the other tokens counts as stable here and might not with the whole distribution. A row whose
// likeliest token changed is never stable.

#include <algorithm>
#include <cmath>

#include "decode/block/algorithm_makers.h"

namespace ashlar {
namespace {

double two_way_divergence(double p, double q) {
  constexpr double kLeast = 1e-7;  // probabilities are floats
  p = std::clamp(p, kLeast, 1 - kLeast);
  q = std::clamp(q, kLeast, 1 - kLeast);
  return p * std::log(p / q) + (1 - p) * std::log((1 - p) / (1 - q));
}

class Klass final : public UnmaskAlgorithm {
 public:
  explicit Klass(const std::map<std::string, double>& values)
      : threshold_(static_cast<float>(values.at("threshold"))),
        kl_threshold_(values.at("kl_threshold")),
        history_(static_cast<int32_t>(values.at("history"))) {}

  // Of each position: memory.ids and .values are the likeliest token a pass before and its probability (0: no pass
  // yet), memory.counts the stable passes in a row.
  Decision decide(const BlockView& block, AlgorithmMemory& memory) const override {
    Decision decision;
    for (int32_t i = 0; i < block.n; ++i) {
      if (!has(block.open, i)) continue;
      const RowStatistics& row = block.statistics[i];
      const bool stable = memory.values[i] > 0 && memory.ids[i] == row.best &&
                          two_way_divergence(row.p_best, memory.values[i]) < kl_threshold_;
      memory.counts[i] = stable ? memory.counts[i] + 1 : 0;
      memory.ids[i] = row.best;
      memory.values[i] = row.p_best;
      if (memory.counts[i] >= history_ && block.confidence[i] > threshold_) decision.unmask |= Positions{1} << i;
    }
    if (decision.unmask == 0) decision.unmask = Positions{1} << most_confident(block, block.open);
    return decision;
  }

 private:
  float threshold_;
  double kl_threshold_;
  int32_t history_;
};

std::unique_ptr<UnmaskAlgorithm> make_klass(const std::map<std::string, double>& values, int32_t) {
  return std::make_unique<Klass>(values);
}

}  // namespace

const AlgorithmKind kKlassAlgorithm = {
    {"klass",
     "every masked position above the threshold whose row is stable, at least one",
     {{"threshold", 0.9, 0.0, 1.0, "unmask tokens more likely than this"},
      {"kl_threshold", 0.01, 0.0, 100.0, "nats a stable row moves less than from pass to pass"},
      {"history", 1, 1, 64, "stable passes in a row before a token is unmasked", true}}},
    make_klass};

}  // namespace ashlar
