// SPDX-License-Identifier: Apache-2.0
// Unmasks a fixed number of masked positions a pass from left to right (SDAR's sequential). With one position a pass it
// is what other algorithms are compared with.

#include "decode/block/algorithm_makers.h"
#include "decode/block/even_share.h"

namespace ashlar {
namespace {

class Sequential final : public UnmaskAlgorithm {
 public:
  Sequential(int32_t block, int32_t steps) : block_(block), steps_(steps) {}

  Decision decide(const BlockView& block, AlgorithmMemory&) const override {
    Decision decision;
    Positions left = block.open;
    for (int32_t n = even_share(block_, steps_, block.pass); n > 0 && left != 0; --n) {
      decision.unmask |= left & -left;
      left &= left - 1;
    }
    return decision;
  }

 private:
  int32_t block_, steps_;
};

std::unique_ptr<UnmaskAlgorithm> make_sequential(const std::map<std::string, double>& values, int32_t block) {
  return std::make_unique<Sequential>(block, static_cast<int32_t>(values.at("steps")));
}

}  // namespace

const AlgorithmKind kSequentialAlgorithm = {
    {"sequential",
     "the next masked positions from left to right, as many in each pass as fill a block in the given number of them",
     {{"steps", 0, 0, kMaxWidth, "passes over a block; 0: one position a pass", true}}},
    make_sequential};

}  // namespace ashlar
