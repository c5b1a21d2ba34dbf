// Settles the surest holes as long as what is unknown about those before stays small: by ascending entropy, each one
// while the entropies of those taken before it sum to at most gamma. The first is always taken. The sum bounds how far
// tokens chosen apart from each other can be from their joint distribution (the EB sampler, arXiv 2505.24857; SGLang's
// EBSampling, SDAR's entropy_bounded).

#include "decode/block/rule_makers.h"

namespace ashlar {
namespace {

int32_t surest(const BlockView& block, Positions among) {
  int32_t best = -1;
  for (int32_t i = 0; i < block.n; ++i) {
    if (has(among, i) && (best < 0 || block.statistics[i].entropy < block.statistics[best].entropy)) best = i;
  }
  return best;
}

class EntropyBound final : public UnmaskRule {
 public:
  explicit EntropyBound(double gamma) : gamma_(gamma) {}

  Verdict judge(const BlockView& block, RuleMemory&) const override {
    Verdict verdict;
    double before = 0;
    for (Positions left = block.open; left != 0 && before <= gamma_; left = block.open & ~verdict.settle) {
      const int32_t i = surest(block, left);
      verdict.settle |= Positions{1} << i;
      before += block.statistics[i].entropy;
    }
    return verdict;
  }

 private:
  double gamma_;
};

std::unique_ptr<UnmaskRule> make_entropy_bound(const std::map<std::string, double>& values, int32_t) {
  return std::make_unique<EntropyBound>(values.at("gamma"));
}

}  // namespace

const RuleKind kEntropyBoundRule = {{"entropy_bound",
                                     "the holes of least entropy, while that of those before sums to at most gamma",
                                     {{"gamma", 0.15, 0.0, 1000.0, "nats"}},
                                     {"eb_sampling", "entropy_bounded"}},
                                    make_entropy_bound};

}  // namespace ashlar
