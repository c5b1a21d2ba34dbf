// SPDX-License-Identifier: Apache-2.0
// Unmasks masked positions by a threshold and goes on correcting unmasked tokens until a pass changes nothing
// (LLaDA2.1's joint mask-to-token and token-to-token decoding; SGLang's JointThreshold). Each pass with masked
// positions unmasks one at least, and at most max_post_edit_steps passes edit a full block, so a block of B positions
// takes B + max_post_edit_steps + 1 passes at most even if two tokens replace each other for ever.

#include "decode/block/algorithm_makers.h"

namespace ashlar {
namespace {

class JointThreshold final : public UnmaskAlgorithm {
 public:
  explicit JointThreshold(const std::map<std::string, double>& values)
      : threshold_(static_cast<float>(values.at("threshold"))),
        edit_threshold_(static_cast<float>(values.at("edit_threshold"))),
        max_post_edit_steps_(static_cast<int32_t>(values.at("max_post_edit_steps"))),
        penalty_(static_cast<float>(values.at("penalty_lambda"))) {}

  bool edits() const override { return true; }
  float repeat_penalty() const override { return penalty_; }

  Decision decide(const BlockView& block, AlgorithmMemory& memory) const override {
    Decision decision;
    if (block.masked == 0 && ++memory.total > max_post_edit_steps_) {
      decision.finished = true;
      return decision;
    }
    for (int32_t i = 0; i < block.n; ++i) {
      const Positions here = Positions{1} << i;
      if (has(block.open, i) && block.confidence[i] > threshold_) decision.unmask |= here;
      if (has(block.unmasked, i) && block.candidates[i] != block.ids[i] && block.confidence[i] > edit_threshold_) {
        decision.edit |= here;
      }
    }
    if (decision.unmask == 0 && block.open != 0) decision.unmask = Positions{1} << most_confident(block, block.open);
    decision.finished = block.masked == 0 && decision.edit == 0;
    return decision;
  }

 private:
  float threshold_, edit_threshold_;
  int32_t max_post_edit_steps_;
  float penalty_;
};

std::unique_ptr<UnmaskAlgorithm> make_joint_threshold(const std::map<std::string, double>& values, int32_t) {
  return std::make_unique<JointThreshold>(values);
}

}  // namespace

const AlgorithmKind kJointThresholdAlgorithm = {
    {"joint_threshold",
     "every masked position above the threshold, at least one, and corrections of unmasked tokens until none is left",
     {{"threshold", 0.5, 0.0, 1.0, "unmask tokens more likely than this"},
      {"edit_threshold", 0.0, 0.0, 1.0, "replace unmasked tokens by others more likely than this; 1: never"},
      {"max_post_edit_steps", 16, 0, 1000, "most passes that correct a full block", true},
      {"penalty_lambda", 0.0, 0.0, 100.0, "taken from the logit of the token before a position, against stutter"}}},
    make_joint_threshold};

}  // namespace ashlar
