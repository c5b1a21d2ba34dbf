// SPDX-License-Identifier: Apache-2.0
#include "decode/propose/denoise_schedule.h"

#include <gtest/gtest.h>

#include <numeric>

namespace ashlar::testing {
namespace {

TEST(DenoiseSchedule, CountsSumToTheBlockExactly) {
  std::vector<int32_t> counts;
  for (const auto schedule : {DenoiseSchedule::kLinear, DenoiseSchedule::kCosine, DenoiseSchedule::kSquareRoot}) {
    for (int32_t positions = 1; positions <= 63; ++positions) {
      for (int32_t passes = 1; passes <= 64; ++passes) {
        denoise_counts(schedule, positions, passes, counts);
        ASSERT_EQ(std::accumulate(counts.begin(), counts.end(), 0), positions);
        ASSERT_EQ(static_cast<int32_t>(counts.size()), std::min(passes, positions));
        for (const int32_t count : counts) ASSERT_GE(count, 1);
      }
    }
  }
}

TEST(DenoiseSchedule, ShapesDiffer) {
  std::vector<int32_t> linear, cosine, root;
  denoise_counts(DenoiseSchedule::kLinear, 14, 3, linear);
  denoise_counts(DenoiseSchedule::kCosine, 14, 3, cosine);
  denoise_counts(DenoiseSchedule::kSquareRoot, 14, 3, root);
  EXPECT_EQ(linear, (std::vector<int32_t>{5, 4, 5}));
  EXPECT_EQ(cosine, (std::vector<int32_t>{2, 5, 7}));  // 14 (1 - cos(pi/6)) = 1.9, 14 (1 - cos(pi/3)) = 7
  EXPECT_EQ(root, (std::vector<int32_t>{8, 3, 3}));    // 14 sqrt(1/3) = 8.1, 14 sqrt(2/3) = 11.4
}

TEST(DenoiseSchedule, NamesRoundTrip) {
  for (const auto schedule : {DenoiseSchedule::kLinear, DenoiseSchedule::kCosine, DenoiseSchedule::kSquareRoot}) {
    EXPECT_EQ(parse_denoise_schedule(name_of(schedule)), schedule);
  }
  EXPECT_FALSE(parse_denoise_schedule("quadratic").has_value());
}

}  // namespace
}  // namespace ashlar::testing
