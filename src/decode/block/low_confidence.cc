// SPDX-License-Identifier: Apache-2.0
// Unmasks every masked position whose token is more likely than a threshold, at least the most confident one (SGLang's
// LowConfidence, SDAR's low_confidence_dynamic).

#include "decode/block/algorithm_makers.h"

namespace ashlar {
namespace {

class LowConfidence final : public UnmaskAlgorithm {
 public:
  explicit LowConfidence(float threshold) : threshold_(threshold) {}

  Decision decide(const BlockView& block, AlgorithmMemory&) const override {
    Decision decision;
    for (int32_t i = 0; i < block.n; ++i) {
      if (has(block.open, i) && block.confidence[i] > threshold_) decision.unmask |= Positions{1} << i;
    }
    if (decision.unmask == 0) decision.unmask = Positions{1} << most_confident(block, block.open);
    return decision;
  }

 private:
  float threshold_;
};

std::unique_ptr<UnmaskAlgorithm> make_low_confidence(const std::map<std::string, double>& values, int32_t) {
  return std::make_unique<LowConfidence>(static_cast<float>(values.at("threshold")));
}

}  // namespace

const AlgorithmKind kLowConfidenceAlgorithm = {
    {"low_confidence",
     "every masked position above the threshold, at least the most confident one",
     {{"threshold", 0.9, 0.0, 1.0, "unmask tokens more likely than this"}},
     {"low_confidence_dynamic"}},
    make_low_confidence};

}  // namespace ashlar
