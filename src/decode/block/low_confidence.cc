// Settles every hole whose token is more likely than a threshold, at least the most confident one (SGLang's
// LowConfidence, SDAR's low_confidence_dynamic).

#include "decode/block/rule_makers.h"

namespace ashlar {
namespace {

class LowConfidence final : public UnmaskRule {
 public:
  explicit LowConfidence(float threshold) : threshold_(threshold) {}

  Verdict judge(const BlockView& block, RuleMemory&) const override {
    Verdict verdict;
    for (int32_t i = 0; i < block.n; ++i) {
      if (has(block.open, i) && block.confidence[i] > threshold_) verdict.settle |= Positions{1} << i;
    }
    if (verdict.settle == 0) verdict.settle = Positions{1} << most_confident(block, block.open);
    return verdict;
  }

 private:
  float threshold_;
};

std::unique_ptr<UnmaskRule> make_low_confidence(const std::map<std::string, double>& values, int32_t) {
  return std::make_unique<LowConfidence>(static_cast<float>(values.at("threshold")));
}

}  // namespace

const RuleKind kLowConfidenceRule = {{"low_confidence",
                                      "every hole above the threshold, at least the most confident one",
                                      {{"threshold", 0.9, 0.0, 1.0, "settle tokens more likely than this"}},
                                      {"low_confidence_dynamic"}},
                                     make_low_confidence};

}  // namespace ashlar
