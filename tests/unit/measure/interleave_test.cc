// SPDX-License-Identifier: Apache-2.0
#include "measure/engine/interleave.h"

#include <gtest/gtest.h>

namespace ashlar {
namespace {

TEST(Interleave, TakesTurnsAndRotates) {
  std::string order;
  std::vector<TimedCase> cases;
  cases.push_back({"a", [&] { order += 'a'; }, 1, {}});
  cases.push_back({"b", [&] { order += 'b'; }, 1, {}});
  cases.push_back({"c", [&] { order += 'c'; }, 2, {}});
  std::vector<int> rounds;
  run_interleaved(cases, 3, 1, [&](int round) { rounds.push_back(round); });
  EXPECT_EQ(order,
            "abc"
            "abc"
            "ba"
            "cab");
  EXPECT_EQ(rounds, (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(cases[0].seconds.size(), 3U);  // warm-up is not counted
  EXPECT_EQ(cases[2].seconds.size(), 2U);
}

TEST(Interleave, Summaries) {
  TimedCase timed;
  timed.seconds = {5, 1, 3, 2, 4};
  EXPECT_EQ(timed.median_seconds(), 3);
  EXPECT_DOUBLE_EQ(timed.p10_seconds(), 1.4);
  EXPECT_EQ(timed.best_seconds(), 1);
}

}  // namespace
}  // namespace ashlar
