// SPDX-License-Identifier: Apache-2.0
// Unmasks the surest masked positions as long as what is unknown stays small: by ascending entropy, the first always.
// Two algorithms by two names, since the same number means different things to their users. entropy_bound takes each
// one while the entropies of those taken before it sum to at most gamma (the EB sampler, arXiv 2505.24857; SGLang's
// EBSampling): that sum bounds how far tokens chosen apart from each other can be from their joint distribution.
// entropy_bounded takes it while the sum with its own is below the bound (SDAR).

#include "decode/block/algorithm_makers.h"

namespace ashlar {
namespace {

int32_t surest(const BlockView& block, Positions among) {
  int32_t best = -1;
  for (int32_t i = 0; i < block.n; ++i) {
    if (has(among, i) && (best < 0 || block.statistics[i].entropy < block.statistics[best].entropy)) best = i;
  }
  return best;
}

class EntropyBound final : public UnmaskAlgorithm {
 public:
  enum class Sum : uint8_t { kBefore, kWithItself };

  EntropyBound(Sum sum, double bound) : sum_(sum), bound_(bound) {}

  Decision decide(const BlockView& block, AlgorithmMemory&) const override {
    Decision decision;
    double before = 0;
    for (Positions left = block.open; left != 0; left = block.open & ~decision.unmask) {
      const int32_t i = surest(block, left);
      const double with = before + block.statistics[i].entropy;
      const bool fits = sum_ == Sum::kBefore ? before <= bound_ : with < bound_;
      if (decision.unmask != 0 && !fits) break;
      decision.unmask |= Positions{1} << i;
      before = with;
    }
    return decision;
  }

 private:
  Sum sum_;
  double bound_;
};

std::unique_ptr<UnmaskAlgorithm> make_entropy_bound(const std::map<std::string, double>& values, int32_t) {
  return std::make_unique<EntropyBound>(EntropyBound::Sum::kBefore, values.at("gamma"));
}

std::unique_ptr<UnmaskAlgorithm> make_entropy_bounded(const std::map<std::string, double>& values, int32_t) {
  return std::make_unique<EntropyBound>(EntropyBound::Sum::kWithItself, values.at("eb_threshold"));
}

}  // namespace

const AlgorithmKind kEntropyBoundAlgorithm = {
    {"entropy_bound",
     "the masked positions of least entropy, while that of those before sums to at most gamma",
     {{"gamma", 0.15, 0.0, 1000.0, "nats"}},
     {"eb_sampling"}},
    make_entropy_bound};

const AlgorithmKind kEntropyBoundedAlgorithm = {
    {"entropy_bounded",
     "the masked positions of least entropy, while theirs sums to less than the threshold",
     {{"eb_threshold", 0.35, 0.0, 1000.0, "nats"}}},
    make_entropy_bounded};

}  // namespace ashlar
