// SPDX-License-Identifier: Apache-2.0
// Unmasks tokens far apart from each other, which depend on each other least: in each contiguous run of masked
// positions the most confident position if it is above a low threshold, besides every masked position above the
// threshold and the most confident one of all (dInfer's hierarchical decoding).

#include "decode/block/algorithm_makers.h"

namespace ashlar {
namespace {

// Bits first, first + 1, ... of `positions` up to the first that is missing.
Positions run_from(Positions positions, int32_t first) {
  const int32_t length = std::countr_one(positions >> first);
  return first_positions(length) << first;
}

class Hierarchy final : public UnmaskAlgorithm {
 public:
  Hierarchy(double threshold, double low)
      : threshold_(static_cast<float>(threshold)), low_threshold_(static_cast<float>(low)) {}

  Decision decide(const BlockView& block, AlgorithmMemory&) const override {
    Decision decision;
    decision.unmask = Positions{1} << most_confident(block, block.open);
    for (Positions left = block.open; left != 0;) {
      const Positions run = run_from(left, std::countr_zero(left));
      const int32_t best = most_confident(block, run);
      if (block.confidence[best] > low_threshold_) decision.unmask |= Positions{1} << best;
      left &= ~run;
    }
    for (int32_t i = 0; i < block.n; ++i) {
      if (has(block.open, i) && block.confidence[i] > threshold_) decision.unmask |= Positions{1} << i;
    }
    return decision;
  }

 private:
  float threshold_, low_threshold_;
};

std::unique_ptr<UnmaskAlgorithm> make_hierarchy(const std::map<std::string, double>& values, int32_t) {
  return std::make_unique<Hierarchy>(values.at("threshold"), values.at("low_threshold"));
}

}  // namespace

const AlgorithmKind kHierarchyAlgorithm = {
    {"hierarchy",
     "every masked position above the threshold, the best of each run of masked positions above the low one, at least "
     "one",
     {{"threshold", 0.9, 0.0, 1.0, "unmask tokens more likely than this"},
      {"low_threshold", 0.4, 0.0, 1.0, "of each run of masked positions the best if more likely than this"}}},
    make_hierarchy};

}  // namespace ashlar
