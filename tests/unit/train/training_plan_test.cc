// SPDX-License-Identifier: Apache-2.0
// What a run decides before its first step: how many steps there are, and which tokens are drafted.

#include <gtest/gtest.h>

#include <set>

#include "train/data/frequent_tokens.h"
#include "train/run/step_timing.h"

namespace ashlar {
namespace {

// A batch's first time counts for nothing: a size that is new to a device costs once.
TEST(StepTiming, TakesBatchesThatCameBefore) {
  std::set<int64_t> seen;
  const auto step = [&](double first, double later) {
    seen.clear();
    return [&seen, first, later](int64_t batch) { return seen.insert(batch).second ? first : later; };
  };
  EXPECT_DOUBLE_EQ(usual_seconds(step(0.1, 0.05)), 0.05);
  EXPECT_GT(seen.size(), 10U);
  EXPECT_DOUBLE_EQ(usual_seconds(step(20, 10)), 10);
  EXPECT_EQ(seen.size(), 3U);
  EXPECT_EQ(steps_within(1, 0.05), 1200);
  EXPECT_EQ(steps_within(0.001, 100), 1);
}

TEST(FrequentTokens, AreLearntMostOften) {
  DocumentSet documents(16);
  documents.add({{9, 9, 9, 7, 3, 7}, {0, 0, 0, 1, 1, 1}, 0});
  documents.end_file(0.25);
  documents.add({{9, 5, 3, 3}, {0, 1, 1, 1}, 0});
  documents.end_file();
  EXPECT_EQ(frequent_tokens(documents, 10, 1), (std::vector<int32_t>{3}));
  EXPECT_EQ(frequent_tokens(documents, 10, 3), (std::vector<int32_t>{3, 5, 7}));
  EXPECT_EQ(frequent_tokens(documents, 10, 4), (std::vector<int32_t>{0, 3, 5, 7}));
  EXPECT_DOUBLE_EQ(share_of_learnt(documents, std::vector<int32_t>{3}), 2.25 / 3.75);
}

}  // namespace
}  // namespace ashlar
