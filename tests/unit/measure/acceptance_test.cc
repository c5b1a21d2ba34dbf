// SPDX-License-Identifier: Apache-2.0
#include "measure/evaluation/acceptance.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ashlar {
namespace {

// A request whose steps proposed and accepted as given; each step yields its accepted drafts and the bonus.
RequestStats request(const std::vector<std::pair<int, int>>& drafted_accepted) {
  RequestStats stats;
  stats.generated_tokens = 1;
  stats.accepted_at.resize(4);
  stats.drafted_at.resize(4);
  stats.lengths.resize(5);
  for (const auto& [drafted, accepted] : drafted_accepted) {
    ++stats.verify_steps;
    stats.drafted += drafted;
    stats.accepted += accepted;
    for (int k = 0; k < drafted; ++k) ++stats.drafted_at[k];
    for (int k = 0; k < accepted; ++k) ++stats.accepted_at[k];
    ++stats.lengths[accepted + 1];
    stats.generated_tokens += accepted + 1;
  }
  return stats;
}

AcceptanceTally two_prompts() {
  AcceptanceTally tally;
  tally.add(request({{3, 3}, {3, 1}}));                  // 4 + 2 tokens in 2 steps
  tally.add(request({{3, 0}, {3, 0}, {3, 2}, {1, 1}}));  // 1 + 1 + 3 + 2 in 4 steps
  return tally;
}

TEST(Acceptance, ThreeDefinitionsDiffer) {
  const AcceptanceTally tally = two_prompts();
  EXPECT_EQ(tally.prompts(), 2);
  EXPECT_EQ(tally.steps(), 6);
  EXPECT_EQ(tally.generated(), 7 + 8);
  EXPECT_DOUBLE_EQ(tally.acceptance_length_per_step().value, 13.0 / 6);
  EXPECT_DOUBLE_EQ(tally.acceptance_length_per_prompt().value, (3.0 + 7.0 / 4) / 2);
  EXPECT_DOUBLE_EQ(tally.acceptance_length_generated().value, 15.0 / 6);
  // Two means 3 and 1.75: deviation 1.25 / sqrt(2), over sqrt(2) prompts.
  EXPECT_DOUBLE_EQ(tally.acceptance_length_per_prompt().error, 0.625);
}

TEST(Acceptance, ByPosition) {
  const AcceptanceTally tally = two_prompts();
  const auto reached = tally.unconditional();
  ASSERT_EQ(reached.size(), 3U);
  EXPECT_DOUBLE_EQ(reached[0], 4.0 / 6);
  EXPECT_DOUBLE_EQ(reached[1], 2.0 / 5);  // the last step proposed one draft only
  EXPECT_DOUBLE_EQ(reached[2], 1.0 / 5);
  const auto given = tally.conditional();
  ASSERT_EQ(given.size(), 3U);
  EXPECT_DOUBLE_EQ(given[0], 4.0 / 6);
  EXPECT_DOUBLE_EQ(given[1], 0.6);
  EXPECT_DOUBLE_EQ(given[2], 0.5);
  const auto certain = tally.conditional(3);  // position 2 was accepted twice only
  EXPECT_DOUBLE_EQ(certain[1], 0.6);
  EXPECT_TRUE(std::isnan(certain[2]));
}

TEST(Acceptance, ConditionalAfterZeroIsUnknown) {
  AcceptanceTally tally;
  tally.add(request({{3, 0}, {3, 0}}));
  const auto given = tally.conditional();
  ASSERT_EQ(given.size(), 3U);
  EXPECT_EQ(given[0], 0);
  EXPECT_TRUE(std::isnan(given[1]));
}

TEST(Acceptance, Histogram) {
  const auto shares = two_prompts().histogram();
  ASSERT_EQ(shares.size(), 4U);
  EXPECT_DOUBLE_EQ(shares[0], 2.0 / 6);
  EXPECT_DOUBLE_EQ(shares[1], 2.0 / 6);
  EXPECT_DOUBLE_EQ(shares[2], 1.0 / 6);
  EXPECT_DOUBLE_EQ(shares[3], 1.0 / 6);
}

TEST(Acceptance, AnswerOfOneTokenHasNoStep) {
  AcceptanceTally tally = two_prompts();
  tally.add(request({}));
  EXPECT_EQ(tally.prompts(), 3);
  EXPECT_EQ(tally.generated(), 16);
  EXPECT_DOUBLE_EQ(tally.acceptance_length_per_prompt().value, (3.0 + 7.0 / 4) / 2);
  EXPECT_DOUBLE_EQ(tally.acceptance_length_generated().value, 15.0 / 6);
}

TEST(Acceptance, NothingYieldsZeros) {
  const AcceptanceTally tally;
  EXPECT_EQ(tally.acceptance_length_per_step().value, 0);
  EXPECT_EQ(tally.acceptance_length_per_prompt().value, 0);
  EXPECT_TRUE(tally.unconditional().empty());
  EXPECT_TRUE(tally.histogram().empty());
  EXPECT_EQ(tally.decode_tokens_per_second(), 0);
}

TEST(Acceptance, SpeedLeavesOutTheFirstToken) {
  RequestStats stats = request({{3, 3}, {3, 1}});
  stats.first_token_ns = 1'000'000'000;
  stats.finished_ns = 4'000'000'000;
  AcceptanceTally tally;
  tally.add(stats);
  EXPECT_DOUBLE_EQ(tally.decode_tokens_per_second(), 2);
}

TEST(Acceptance, SpeedOfBlocksBeginsBehindThePrompt) {
  RequestStats stats = request({{3, 3}, {3, 1}});
  stats.blocks = 1;
  stats.admitted_ns = 1'000'000'000;
  stats.prompt_done_ns = 2'000'000'000;
  stats.first_token_ns = 3'500'000'000;
  stats.finished_ns = 4'000'000'000;
  AcceptanceTally tally;
  tally.add(stats);
  EXPECT_DOUBLE_EQ(tally.decode_tokens_per_second(), stats.generated_tokens / 2.0);
}

}  // namespace
}  // namespace ashlar
