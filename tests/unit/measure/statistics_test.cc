// SPDX-License-Identifier: Apache-2.0
#include "measure/statistics.h"

#include <gtest/gtest.h>

#include "measure/engine/ratio_report.h"

namespace ashlar {
namespace {

TEST(Statistics, NothingAndOneValue) {
  EXPECT_EQ(mean({}), 0);
  EXPECT_EQ(standard_deviation({}), 0);
  EXPECT_EQ(quantile({}, 0.5), 0);
  const std::vector<double> one = {4};
  EXPECT_EQ(mean(one), 4);
  EXPECT_EQ(standard_deviation(one), 0);
  EXPECT_EQ(standard_error(one), 0);
  EXPECT_EQ(quantile(one, 0.1), 4);
}

TEST(Statistics, HandComputed) {
  // Squared distances from 5: 9 1 1 1 0 0 4 16, sum 32; 32 / 7 under the root.
  const std::vector<double> values = {2, 4, 4, 4, 5, 5, 7, 9};
  EXPECT_DOUBLE_EQ(mean(values), 5);
  EXPECT_NEAR(standard_deviation(values), 2.138089935, 1e-9);
  EXPECT_NEAR(standard_error(values), 0.755928946, 1e-9);
}

TEST(Statistics, QuantileInterpolatesLikeNumpy) {
  const std::vector<double> values = {40, 10, 30, 20};
  EXPECT_DOUBLE_EQ(quantile(values, 0), 10);
  EXPECT_DOUBLE_EQ(quantile(values, 1), 40);
  EXPECT_DOUBLE_EQ(median(values), 25);
  EXPECT_DOUBLE_EQ(quantile(values, 0.1), 13);  // 0.3 of the way from 10 to 20
  EXPECT_DOUBLE_EQ(quantile(values, 0.9), 37);
  EXPECT_DOUBLE_EQ(quantile(values, 7), 40);
}

TEST(Statistics, PooledRatio) {
  // 2 / 1 and 6 / 5: pooled 8 / 6. Residuals 2 - 4/3 = 2/3 and 6 - 20/3 = -2/3; sqrt(8/9 * 2 / 1) / 6 = (4/3) / 6.
  const std::vector<double> above = {2, 6}, below = {1, 5};
  const Ratio ratio = pooled_ratio(above, below);
  EXPECT_DOUBLE_EQ(ratio.value, 8.0 / 6);
  EXPECT_NEAR(ratio.error, 4.0 / 18, 1e-12);
  EXPECT_EQ(pooled_ratio({}, {}).value, 0);
  EXPECT_EQ(pooled_ratio(std::vector<double>{3}, std::vector<double>{2}).error, 0);
}

// With equal denominators the ratio's error is the standard error of the mean, scaled.
TEST(Statistics, PooledRatioOfEqualParts) {
  const std::vector<double> above = {2, 4, 4, 4, 5, 5, 7, 9}, below(8, 2.0);
  EXPECT_NEAR(pooled_ratio(above, below).error, 0.755928946 / 2, 1e-9);
}

// With denominators of 1 it is the mean of the differences with its standard error, and what is alike has no error at
// all, however much prompts differ.
TEST(Statistics, PairedGain) {
  const std::vector<double> one(4, 1.0), before = {2, 9, 4, 30}, after = {3, 9, 6, 34};
  const Ratio gain = paired_gain({before, one}, {after, one});
  EXPECT_DOUBLE_EQ(gain.value, 7.0 / 4);
  EXPECT_NEAR(gain.error, standard_error(std::vector<double>{1, 0, 2, 4}), 1e-12);
  // The same tokens in half the steps: twice the ratio, whose residuals are twice as large.
  const std::vector<double> steps = {1, 6, 3, 8}, half = {0.5, 3, 1.5, 4};
  const Ratio twice = paired_gain({before, steps}, {before, half});
  EXPECT_DOUBLE_EQ(twice.value, pooled_ratio(before, steps).value);
  EXPECT_NEAR(twice.error, pooled_ratio(before, steps).error, 1e-12);
  EXPECT_EQ(paired_gain({before, steps}, {before, steps}).error, 0);
}

// What has no error, or no value, says so to people; files for programs keep numbers.
TEST(RatioReport, NamesNoErrorThatIsNotThere) {
  const std::vector<double> tokens = {6, 9, 4};
  const std::vector<double> steps = {2, 3, 2};
  EXPECT_EQ(ratio_text(pooled_ratio(tokens, steps), 2), "2.71 ± 0.31");
  EXPECT_EQ(ratio_text(pooled_ratio(std::span(tokens).first(1), std::span(steps).first(1)), 2), "3.00");
  EXPECT_EQ(ratio_text(pooled_ratio({}, {}), 2), "-");
  EXPECT_EQ(ratio_json(pooled_ratio({}, {})).dump(), R"({"value":0.0,"standard_error":0.0})");
}

}  // namespace
}  // namespace ashlar
