// SPDX-License-Identifier: Apache-2.0
// Unmasks masked positions by a threshold on a confidence that grows while the same token leads (dInfer's
// CreditDecoding). A token that leads with probability p gets credit C = beta * C + p^gamma, and alpha * ln(1 + C) is
// added to its logit before the threshold is asked. The original keeps a credit for every token of the vocabulary; here
// a position has one, of the token that leads, which starts over when another takes the lead. So credit changes when a
// token is unmasked, never which.

#include <cmath>

#include "decode/block/algorithm_makers.h"

namespace ashlar {
namespace {

class Credit final : public UnmaskAlgorithm {
 public:
  explicit Credit(const std::map<std::string, double>& values)
      : threshold_(values.at("threshold")),
        alpha_(values.at("alpha")),
        beta_(values.at("beta")),
        gamma_(values.at("gamma")) {}

  // Of each position: memory.ids and .values are the leading token and its credit.
  Decision decide(const BlockView& block, AlgorithmMemory& memory) const override {
    Decision decision;
    int32_t surest = -1;
    double highest = 0;
    for (int32_t i = 0; i < block.n; ++i) {
      if (!has(block.open, i)) continue;
      const double confidence = with_credit(block, i, memory);
      if (confidence > threshold_) decision.unmask |= Positions{1} << i;
      if (surest < 0 || confidence > highest) {
        surest = i;
        highest = confidence;
      }
    }
    if (decision.unmask == 0) decision.unmask = Positions{1} << surest;
    return decision;
  }

 private:
  double with_credit(const BlockView& block, int32_t i, AlgorithmMemory& memory) const {
    const RowStatistics& row = block.statistics[i];
    const double kept = memory.ids[i] == row.best ? beta_ * memory.values[i] : 0;
    const double credit = kept + std::pow(static_cast<double>(row.p_best), gamma_);
    memory.ids[i] = row.best;
    memory.values[i] = static_cast<float>(credit);
    const double p = block.confidence[i];
    if (block.candidates[i] != row.best) return p;  // a sampled token that does not lead
    const double raised = p * std::pow(1 + credit, alpha_);
    return raised / (1 - p + raised);
  }

  double threshold_, alpha_, beta_, gamma_;
};

std::unique_ptr<UnmaskAlgorithm> make_credit(const std::map<std::string, double>& values, int32_t) {
  return std::make_unique<Credit>(values);
}

}  // namespace

const AlgorithmKind kCreditAlgorithm = {
    {"credit",
     "every masked position above the threshold, where tokens that keep leading gain confidence",
     {{"threshold", 0.9, 0.0, 1.0, "unmask tokens more likely than this"},
      {"alpha", 0.7, 0.0, 10.0, "weight of the credit"},
      {"beta", 0.8, 0.0, 1.0, "share of it that is kept from pass to pass"},
      {"gamma", 0.2, 0.0, 10.0, "power of the probability that is added"}},
     {"credit_decoding"}},
    make_credit};

}  // namespace ashlar
