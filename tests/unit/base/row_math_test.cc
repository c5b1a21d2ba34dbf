// SPDX-License-Identifier: Apache-2.0
#include "base/row_math.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace ashlar::testing {
namespace {

TEST(Argmax, FindsTheFirstOfTheLargestAtEveryLengthAndPlace) {
  for (int32_t n = 1; n <= 70; ++n) {
    for (int32_t at = 0; at < n; ++at) {
      std::vector<float> values(n, -5.0F);
      values[at] = 2.0F;
      EXPECT_EQ(argmax(values.data(), n), at);
      values[n - 1] = 2.0F;
      EXPECT_EQ(argmax(values.data(), n), at);
    }
  }
}

TEST(Argmax, SkipsWhatIsNotANumber) {
  std::vector<float> values(40, std::nanf(""));
  EXPECT_EQ(argmax(values.data(), 40), 0);
  values[33] = -7.0F;
  EXPECT_EQ(argmax(values.data(), 40), 33);
  values.assign(40, -INFINITY);
  EXPECT_EQ(argmax(values.data(), 40), 0);
  values[0] = std::nanf("");
  for (const RowMath& passes : row_maths()) EXPECT_EQ(passes.argmax(values.data(), 40), 1);
}

TEST(Argmax, AgreesWithAScanOfRowsWithTiesAndHoles) {
  std::mt19937 random(5);
  for (int round = 0; round < 3000; ++round) {
    std::vector<float> values(1 + random() % 90);
    for (float& value : values) {
      const uint32_t kind = random() % 12;
      value = kind == 0 ? std::nanf("") : kind == 1 ? -INFINITY : static_cast<float>(random() % 7) - 3.0F;
    }
    int32_t expected = -1;
    for (size_t i = 0; i < values.size(); ++i) {
      if (!std::isnan(values[i]) && (expected < 0 || values[i] > values[expected])) expected = static_cast<int32_t>(i);
    }
    EXPECT_EQ(argmax(values.data(), static_cast<int32_t>(values.size())), std::max(expected, 0)) << round;
  }
}

TEST(FirstOf, ComparesNumbersAndNotTheirBits) {
  const std::vector<float> values = {std::nanf(""), 3.0F, -0.0F, 0.0F, -INFINITY, 3.0F};
  const auto n = static_cast<int32_t>(values.size());
  EXPECT_EQ(first_of(values.data(), n, 3.0F), 1);
  EXPECT_EQ(first_of(values.data(), n, 0.0F), 2);
  EXPECT_EQ(first_of(values.data() + 3, n - 3, -0.0F), 0);
  EXPECT_EQ(first_of(values.data(), n, -INFINITY), 4);
  EXPECT_EQ(first_of(values.data(), n, 7.0F), n);
  EXPECT_EQ(first_of(values.data(), 0, 7.0F), 0);
}

TEST(FirstOf, FindsTheFirstOfEqualsAtEveryLengthAndPlace) {
  for (const RowMath& passes : row_maths()) {
    for (int32_t n = 0; n <= 600; n += n < 40 ? 1 : 37) {
      std::vector<float> values(static_cast<size_t>(n) + 1, std::nanf(""));
      values.back() = 2.0F;  // beyond the end
      EXPECT_EQ(passes.first_of(values.data(), n, 2.0F), n);
      for (int32_t at = n - 1; at >= 0; --at) {
        values[static_cast<size_t>(at)] = 2.0F;
        EXPECT_EQ(passes.first_of(values.data(), n, 2.0F), at) << "of " << n;
      }
    }
  }
}

TEST(TopTwo, AgreesWithASortOfRowsWithTiesAndHoles) {
  std::mt19937 random(8);
  for (int round = 0; round < 6000; ++round) {
    std::vector<float> values(1 + random() % (round % 2 == 0 ? 40 : 600));
    const uint32_t kinds = round % 3 == 0 ? 2 : round % 3 == 1 ? 3 : 12;  // often hardly a number
    for (float& value : values) {
      const uint32_t kind = random() % kinds;
      value = kind == 0 ? std::nanf("") : kind == 1 ? -INFINITY : static_cast<float>(random() % 9) - 4.0F;
      if (value == 0 && random() % 2 == 0) value = -value;
    }
    std::vector<int32_t> expected;
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i] > -INFINITY) expected.push_back(static_cast<int32_t>(i));
    }
    std::stable_sort(expected.begin(), expected.end(), [&](int32_t a, int32_t b) { return values[a] > values[b]; });
    expected.resize(std::max<size_t>(2, expected.size()), -1);
    for (const RowMath& passes : row_maths()) {
      const TopTwo found = passes.top_two(values.data(), static_cast<int32_t>(values.size()));
      ASSERT_EQ(found.best, expected[0]) << round;
      ASSERT_EQ(found.second, expected[1]) << round;
    }
  }
}

TEST(RowMath, EveryInstructionSetGivesTheSameBits) {
  const std::vector<RowMath> all = row_maths();
  std::mt19937 random(9);
  for (int round = 0; round < 2000; ++round) {
    const auto n = static_cast<int32_t>(1 + random() % (round % 10 == 0 ? 9000 : 100));
    std::normal_distribution<float> normal(1.0F, round % 2 == 0 ? 3.0F : 40.0F);
    std::vector<float> values(static_cast<size_t>(n));
    for (float& value : values) value = random() % 8 == 0 ? -INFINITY : normal(random);
    const RowMath& first = all.front();
    const int32_t at = first.argmax(values.data(), n);
    const float highest = values[static_cast<size_t>(at)] > -INFINITY ? values[static_cast<size_t>(at)] : 0.0F;
    std::vector<int32_t> likeliest(6);
    likeliest.resize(static_cast<size_t>(first.top_k(values.data(), n, 6, likeliest.data())));
    for (const RowMath& passes : all) {
      ASSERT_EQ(passes.argmax(values.data(), n), at);
      std::vector<int32_t> found(6);
      found.resize(static_cast<size_t>(passes.top_k(values.data(), n, 6, found.data())));
      ASSERT_EQ(found, likeliest);
      ASSERT_EQ(passes.exp_sum(values.data(), n, highest, 1.3F), first.exp_sum(values.data(), n, highest, 1.3F));
      ASSERT_EQ(passes.rough_exp_sum(values.data(), n, highest), first.rough_exp_sum(values.data(), n, highest));
      const ExpMoments moments = passes.exp_moments(values.data(), n, highest);
      ASSERT_EQ(moments.sum, first.exp_moments(values.data(), n, highest).sum);
      ASSERT_EQ(moments.weighted, first.exp_moments(values.data(), n, highest).weighted);
    }
  }
}

TEST(RowMath, ExponentsAreThoseOfDoublePrecision) {
  std::mt19937 random(10);
  std::uniform_real_distribution<float> below(-100.0F, 0.0F);
  for (int round = 0; round < 300; ++round) {
    std::vector<float> values(1 + random() % 700);
    for (float& value : values)
      value = random() % 8 == 0 ? -INFINITY : below(random) / static_cast<float>(1 << round % 6);
    values[random() % values.size()] = 0.0F;
    double sum = 0;
    double weighted = 0;
    for (const float value : values) {
      if (value == -INFINITY) continue;
      sum += std::exp(static_cast<double>(value));
      weighted += std::exp(static_cast<double>(value)) * value;
    }
    for (const RowMath& passes : row_maths()) {
      const ExpMoments moments = passes.exp_moments(values.data(), static_cast<int32_t>(values.size()), 0.0F);
      ASSERT_NEAR(moments.sum, sum, 1e-6 * sum);
      ASSERT_NEAR(moments.weighted, weighted, 1e-6 * sum);
      ASSERT_NEAR(passes.exp_sum(values.data(), static_cast<int32_t>(values.size()), 0.0F, 1.0F), sum, 1e-6 * sum);
    }
  }
}

TEST(RowMath, WhatHasNoProbabilityAddsNothing) {
  for (const RowMath& passes : row_maths()) {
    const std::vector<float> values = {-INFINITY, 3.0F, std::nanf(""), -INFINITY, -200.0F};
    EXPECT_EQ(passes.exp_moments(values.data(), 5, 3.0F).sum, 1.0);
    EXPECT_EQ(passes.exp_moments(values.data(), 5, 3.0F).weighted, 0.0);
  }
}

TEST(TopK, AgreesWithASortOfRowsWithTiesAndHoles) {
  std::mt19937 random(6);
  const uint32_t most[] = {40, 400, 3000, 150000};
  for (int round = 0; round < 3000; ++round) {
    std::vector<float> values(1 + random() % most[round % 50 == 0 ? 3 : round % 3]);
    const uint32_t kinds = round % 7 == 0 ? 2 + random() % 3 : 12;  // few numbers, or many
    const uint32_t different = round % 2 == 0 ? 50 : 1 << 20;
    for (float& value : values) {
      const uint32_t kind = random() % kinds;
      value = kind == 0   ? std::nanf("")
              : kind == 1 ? -INFINITY
                          : static_cast<float>(random() % different) - static_cast<float>(different / 2);
    }
    if (round % 5 == 0)
      std::fill(values.begin(), values.begin() + static_cast<int64_t>(values.size()) * 2 / 3, -INFINITY);
    std::vector<int32_t> expected;
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i] > -INFINITY) expected.push_back(static_cast<int32_t>(i));
    }
    std::stable_sort(expected.begin(), expected.end(), [&](int32_t a, int32_t b) { return values[a] > values[b]; });
    const int32_t k = 1 + round % 20;
    expected.resize(std::min<size_t>(expected.size(), static_cast<size_t>(k)));
    std::vector<int32_t> found(static_cast<size_t>(k));
    found.resize(static_cast<size_t>(top_k(values.data(), static_cast<int32_t>(values.size()), k, found.data())));
    ASSERT_EQ(found, expected) << round;
  }
}

TEST(ExpSum, AgreesWithTheLibrary) {
  std::mt19937 random(1);
  for (const float spread : {0.1F, 2.0F, 30.0F, 500.0F}) {
    for (const int32_t n : {1, 7, 8, 9, 1000, 8191}) {
      for (const float inverse : {0.5F, 1.0F, 1.0F / 0.7F}) {
        std::normal_distribution<float> normal(3.0F, spread);
        std::vector<float> values(n);
        for (float& value : values) value = normal(random);
        const float highest = values[argmax(values.data(), n)];
        double expected = 0;
        for (const float value : values) expected += std::exp((static_cast<double>(value) - highest) * inverse);
        EXPECT_NEAR(exp_sum(values.data(), n, highest, inverse) / expected, 1.0, 2e-5) << spread << " " << n;
        values.insert(values.begin() + n / 2, -INFINITY);  // what a constraint forbids weighs nothing
        EXPECT_NEAR(exp_sum(values.data(), n + 1, highest, inverse) / expected, 1.0, 2e-5) << spread << " " << n;
        if (inverse != 1.0F) continue;
        const double rest = expected - 1.0;
        EXPECT_NEAR(rough_exp_sum(values.data(), n + 1, highest), expected, 0.04 * rest + 1e-6) << spread << " " << n;
        values[0] = std::nanf("");
        EXPECT_LE(rough_exp_sum(values.data(), n + 1, highest), 1.04 * expected + 1e-6);
      }
    }
  }
}

}  // namespace
}  // namespace ashlar::testing
