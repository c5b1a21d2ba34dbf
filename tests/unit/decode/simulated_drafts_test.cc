// SPDX-License-Identifier: Apache-2.0
// How often drafts of a wished quality are right.

#include "decode/propose/simulated_drafts.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/error.h"

namespace ashlar {
namespace {

double mean_tokens(const SimulatedDrafts& simulated, int64_t first, int64_t steps) {
  double sum = 0;
  for (int64_t step = first; step < first + steps; ++step) sum += 1 + simulated.right_drafts(step);
  return sum / static_cast<double>(steps);
}

TEST(SimulatedDrafts, GivesTheLengthAskedForWhereverItBegins) {
  for (const int32_t width : {2, 6, 16, 64}) {
    for (const double share : {0.0, 0.1, 0.4, 0.9, 1.0}) {
      const double wanted = 1 + share * (width - 1);
      const SimulatedDrafts simulated(wanted, width);
      // Points at multiples of the golden ratio are off by at most O(log n / n) of the range.
      EXPECT_NEAR(mean_tokens(simulated, 0, 2000), wanted, 0.005 * width) << wanted << " of " << width;
      EXPECT_NEAR(mean_tokens(simulated, 12345, 100), wanted, 0.06 * width) << wanted << " of " << width;
    }
  }
}

// Each place is reached from the one before with the same chance.
TEST(SimulatedDrafts, DraftsAreRightWithOneChance) {
  constexpr int32_t kWidth = 16;
  constexpr int64_t kSteps = 100000;
  const SimulatedDrafts simulated(6.34, kWidth);
  std::vector<double> reached(kWidth);
  for (int64_t step = 0; step < kSteps; ++step) {
    for (int32_t k = 0; k <= simulated.right_drafts(step); ++k) ++reached[static_cast<size_t>(k)];
  }
  ASSERT_EQ(reached[0], kSteps);
  const double chance = reached[1] / reached[0];
  EXPECT_GT(chance, 0.5);
  for (size_t k = 1; k < kWidth; ++k) EXPECT_NEAR(reached[k] / reached[k - 1], chance, 0.002) << k;
}

TEST(SimulatedDrafts, KnowsAnswersByTheirWholePrompts) {
  SimulatedDrafts simulated(2, 4);
  simulated.add({1, 2}, {7, 8});
  simulated.add({1, 2, 3}, {9});
  simulated.add({1, 2}, {5});  // the first one stays: sequences may hold it
  const std::vector<int32_t> known = {1, 2, 3, 9};
  ASSERT_NE(simulated.answer_to(known, 2), nullptr);
  EXPECT_EQ(*simulated.answer_to(known, 2), (std::vector<int32_t>{7, 8}));
  EXPECT_EQ(*simulated.answer_to(known, 3), (std::vector<int32_t>{9}));
  EXPECT_EQ(simulated.answer_to(known, 1), nullptr);
}

TEST(SimulatedDrafts, RefusesLengthsThatBlocksDoNotGive) {
  const auto words = [](double length, int32_t width) -> std::string {
    try {
      const SimulatedDrafts simulated(length, width);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(words(16.5, 16).find("16.5 was asked for; this drafter's blocks give 1 to 16"), std::string::npos);
  EXPECT_NE(words(0.5, 16), "");
  EXPECT_NE(words(std::nan(""), 16), "");
  EXPECT_NE(words(2, 1).find("--drafter"), std::string::npos);
  EXPECT_EQ(words(16, 16), "");
}

}  // namespace
}  // namespace ashlar
