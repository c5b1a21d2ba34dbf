// SPDX-License-Identifier: Apache-2.0
// What a position of a block would get, where its own token is among those that penalties count.

#include "unit/decode/fill_candidate.h"

#include <gtest/gtest.h>

namespace ashlar::testing {
namespace {

constexpr int32_t kFewTokens = 6;
constexpr CandidateOptions kOptions = {.vocab = kFewTokens, .mask_id = 5};

struct Filled {
  Block block;
  Slot slot;

  Filled(const SamplingParams& params, std::vector<int32_t> tokens) {
    slot.params = params;
    slot.counts.reserve(kFewTokens);
    block.open(0, static_cast<int32_t>(tokens.size()) + 1, kOptions.mask_id);
    for (size_t i = 0; i < tokens.size(); ++i) block.unmask(static_cast<int32_t>(i), tokens[i], params, slot.counts);
  }
  // Of logits in which 3 is a little ahead of 1.
  int32_t candidate(int32_t i) {
    fill_candidate(block, i, slot, kOptions, {0, 1.95F, 0, 2, 0, 9});
    return block.candidates[i];
  }
};

TEST(Candidates, AnUnmaskedTokenIsNotPenalisedForItself) {
  SamplingParams repetition;
  repetition.repetition_penalty = 1.15;
  SamplingParams presence;
  presence.presence_penalty = 1;
  SamplingParams frequency;
  frequency.frequency_penalty = 0.5;
  for (const SamplingParams& params : {repetition, presence, frequency}) {
    Filled alone(params, {3, 0});
    for (int again = 0; again < 2; ++again) {
      EXPECT_EQ(alone.candidate(0), 3);  // nothing else of the answer is a 3
      EXPECT_EQ(alone.candidate(1), 1);  // the 3 before it counts
      EXPECT_EQ(alone.candidate(2), 1);
      EXPECT_EQ(alone.slot.counts.in_answer(3), 1);
    }
    Filled twice(params, {3, 3});
    EXPECT_EQ(twice.candidate(0), 1);
    EXPECT_EQ(twice.candidate(1), 1);
    EXPECT_EQ(twice.slot.counts.in_answer(3), 2);
  }
}

}  // namespace
}  // namespace ashlar::testing
