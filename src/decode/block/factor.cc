// SPDX-License-Identifier: Apache-2.0
// Unmasks the k most confident masked positions for the largest k whose k-th confidence is at least 1 - factor / (k +
// 1): the more at once, the surer each must be. At least one (Fast-dLLM, arXiv 2505.22618).

#include "decode/block/algorithm_makers.h"

namespace ashlar {
namespace {

class Factor final : public UnmaskAlgorithm {
 public:
  explicit Factor(double factor) : factor_(factor) {}

  Decision decide(const BlockView& block, AlgorithmMemory&) const override {
    Decision decision;
    // Confidences fall and the bound rises with k, so the first k that fails is followed by failures only.
    for (int32_t k = 1; k <= count(block.open); ++k) {
      const int32_t i = most_confident(block, block.open & ~decision.unmask);
      if (k > 1 && !(block.confidence[i] >= 1 - factor_ / (k + 1))) break;
      decision.unmask |= Positions{1} << i;
    }
    return decision;
  }

 private:
  double factor_;
};

std::unique_ptr<UnmaskAlgorithm> make_factor(const std::map<std::string, double>& values, int32_t) {
  return std::make_unique<Factor>(values.at("factor"));
}

}  // namespace

const AlgorithmKind kFactorAlgorithm = {
    {"factor",
     "the k most confident masked positions while the k-th reaches 1 - factor / (k + 1)",
     {{"factor", 1.0, 0.0, 65.0, "higher: more at once"}}},
    make_factor};

}  // namespace ashlar
