// Settles a fixed number of holes a pass, the most confident ones (LLaDA's low-confidence remasking, SDAR's
// low_confidence_static): the passes over a block are known in advance.

#include "decode/block/even_share.h"
#include "decode/block/rule_makers.h"

namespace ashlar {
namespace {

class Static final : public UnmaskRule {
 public:
  Static(int32_t block, int32_t steps) : block_(block), steps_(steps) {}

  Verdict judge(const BlockView& block, RuleMemory&) const override {
    Verdict verdict;
    for (int32_t n = even_share(block_, steps_, block.pass); n > 0; --n) {
      const Positions left = block.open & ~verdict.settle;
      if (left == 0) break;
      verdict.settle |= Positions{1} << most_confident(block, left);
    }
    return verdict;
  }

 private:
  int32_t block_, steps_;
};

std::unique_ptr<UnmaskRule> make_static(const std::map<std::string, double>& values, int32_t block) {
  return std::make_unique<Static>(block, static_cast<int32_t>(values.at("steps")));
}

}  // namespace

const RuleKind kStaticRule = {
    {"static",
     "the most confident holes, as many in each pass as fill a block in the given number of them",
     {{"steps", 0, 0, kMaxWidth, "passes over a block; 0: one position a pass", true}},
     {"low_confidence_static"}},
    make_static};

}  // namespace ashlar
