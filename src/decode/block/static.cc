// SPDX-License-Identifier: Apache-2.0
// Unmasks a fixed number of masked positions a pass, the most confident ones (LLaDA's low-confidence remasking, SDAR's
// low_confidence_static): the passes over a block are known in advance.

#include "decode/block/algorithm_makers.h"
#include "decode/block/even_share.h"

namespace ashlar {
namespace {

class Static final : public UnmaskAlgorithm {
 public:
  Static(int32_t block, int32_t steps) : block_(block), steps_(steps) {}

  Decision decide(const BlockView& block, AlgorithmMemory&) const override {
    Decision decision;
    for (int32_t n = even_share(block_, steps_, block.pass); n > 0; --n) {
      const Positions left = block.open & ~decision.unmask;
      if (left == 0) break;
      decision.unmask |= Positions{1} << most_confident(block, left);
    }
    return decision;
  }

 private:
  int32_t block_, steps_;
};

std::unique_ptr<UnmaskAlgorithm> make_static(const std::map<std::string, double>& values, int32_t block) {
  return std::make_unique<Static>(block, static_cast<int32_t>(values.at("steps")));
}

}  // namespace

const AlgorithmKind kStaticAlgorithm = {
    {"static",
     "the most confident masked positions, as many in each pass as fill a block in the given number of them",
     {{"steps", 0, 0, kMaxWidth, "passes over a block; 0: one position a pass", true}},
     {"low_confidence_static"}},
    make_static};

}  // namespace ashlar
