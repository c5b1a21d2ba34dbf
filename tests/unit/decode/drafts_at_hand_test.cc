// SPDX-License-Identifier: Apache-2.0
// Drafts that need no proposer, against those that do.

#include <gtest/gtest.h>

#include "unit/decode/simulated_device.h"

namespace ashlar::testing {
namespace {

// Where nothing proposes, drafts at hand are taken as far as they pay, and there are no others.
TEST(WidthPolicy, WithoutProposerTakesWhatIsAtHand) {
  WidthPolicy policy(16, 3, ProposerRows::kNone);
  const std::vector<float> likely(12, 0.95F);
  const std::vector<float> unlikely(12, 0.01F);
  const auto choose_from = [&](std::span<const float> first, std::span<const float> second) {
    std::vector<WidthChoice> sequences{{0, 64, 0, first}, {1, 8, 0, second}, {2, 64}};
    EXPECT_FALSE(policy.choose(sequences));
    std::vector<int32_t> widths;
    for (const WidthChoice& sequence : sequences) {
      EXPECT_EQ(sequence.takes_at_hand, sequence.width > 1);
      widths.push_back(sequence.width);
    }
    return widths;
  };
  EXPECT_EQ(choose_from(likely, unlikely), (std::vector<int32_t>{13, 8, 1}));  // costs are not known yet
  set_costs(policy, line(100, 1), {});
  // Often enough for a policy with a proposer to try that again.
  for (int i = 0; i < 3000; ++i) {
    ASSERT_EQ(choose_from({}, {}), (std::vector<int32_t>{1, 1, 1}));
    ASSERT_EQ(choose_from(likely, unlikely), (std::vector<int32_t>{13, 1, 1}));
    ASSERT_EQ(choose_from(unlikely, likely), (std::vector<int32_t>{1, 8, 1}));
    policy.costs().observe({15, 0, 0}, {}, 115, 0);
  }
  policy = WidthPolicy(16, 3, ProposerRows::kNone);
  set_costs(policy, line(0, 100), {});
  EXPECT_EQ(choose_from(likely, likely), (std::vector<int32_t>{1, 1, 1}));  // every row costs what a step does
}

// One sequence that has drafts at hand with these chances; the proposer's survive with 0.7 each.
WidthChoice choose_with(const std::vector<float>& at_hand, const RowCost& verify, const RowCost& draft) {
  WidthPolicy policy(16, 1);
  set_costs(policy, verify, draft);
  std::vector<WidthChoice> one = {{0, 16, 0, at_hand}};
  for (int pass = 0; pass < 50; ++pass) {
    one[0].width = 16;
    policy.choose(one);
  }
  return one[0];
}

TEST(WidthPolicy, TakesDraftsAtHandWhereTheyYieldMore) {
  const std::vector<float> sure(15, 0.9F);
  const WidthChoice taken = choose_with(sure, line(1.0, 0.01), line(0.2, 0.01));
  EXPECT_TRUE(taken.takes_at_hand);
  EXPECT_EQ(taken.width, 16);
  const std::vector<float> few = {0.9F, 0.85F};
  const WidthChoice shorter = choose_with(few, line(1.0, 0.01), line(2.0, 0.01));
  EXPECT_TRUE(shorter.takes_at_hand);  // the proposer is too slow
  EXPECT_EQ(shorter.width, 3);
  const std::vector<float> poor = {0.1F, 0.01F, 0.001F};
  const WidthChoice proposed = choose_with(poor, line(1.0, 0.01), line(0.2, 0.01));
  EXPECT_FALSE(proposed.takes_at_hand);
  EXPECT_GT(proposed.width, 1);
  const WidthChoice neither = choose_with(poor, line(0.1, 1.0), line(2.0, 0.01));
  EXPECT_FALSE(neither.takes_at_hand);
  EXPECT_LE(neither.width, 4);  // 1, or a trial of the proposer's
}

// Drafts at hand cost rows of the target, but no pass of the proposer.
TEST(WidthPolicy, DraftsAtHandPayWhereTheProposerDoesNot) {
  const std::vector<float> fair = {0.6F, 0.4F, 0.25F};
  EXPECT_TRUE(choose_with(fair, line(1.0, 0.05), line(0.8, 0.01)).takes_at_hand);
  EXPECT_FALSE(choose_with(fair, line(1.0, 0.05), line(0.05, 0.001)).takes_at_hand);
}

// What one sequence has at hand is verified even if the drafts of the others are likelier, but not worth a pass of the
// proposer.
TEST(WidthPolicy, DraftsAtHandNeedNoOthers) {
  WidthPolicy policy(16, 4);
  set_costs(policy, line(1.0, 0.1), line(20.0, 0.01));
  const std::vector<float> fair = {0.5F, 0.3F};
  std::vector<WidthChoice> several;
  for (int pass = 0; pass < 50; ++pass) {
    several = {{0, 16, 0, fair}, {1, 16}, {2, 16}, {3, 16}};
    policy.choose(several);
  }
  EXPECT_TRUE(several[0].takes_at_hand);
  EXPECT_EQ(several[0].width, 3);
  for (size_t i = 1; i < several.size(); ++i) EXPECT_FALSE(several[i].takes_at_hand);
}

}  // namespace
}  // namespace ashlar::testing
