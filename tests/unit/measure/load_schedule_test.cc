// SPDX-License-Identifier: Apache-2.0
#include "measure/serve/load_schedule.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ashlar {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

TEST(LoadSchedule, AClosedLoopKeepsSoManyInFlight) {
  LoadSchedule schedule({2, 0}, 3, 0, 0, 100);
  EXPECT_TRUE(schedule.due(100, 0));
  EXPECT_EQ(schedule.take(150), (std::pair<size_t, int64_t>(0, 150)));
  EXPECT_TRUE(schedule.due(150, 1));
  schedule.take(150);
  EXPECT_FALSE(schedule.due(150, 2));
  EXPECT_TRUE(schedule.may_send(150));
  EXPECT_TRUE(schedule.due(200, 1));
  schedule.take(200);
  EXPECT_FALSE(schedule.may_send(200));
  EXPECT_FALSE(schedule.due(200, 0));
}

TEST(LoadSchedule, ADurationEndsIt) {
  LoadSchedule schedule({1, 0}, 0, 2.0, 0, 0);
  for (int i = 0; i < 1000; ++i) schedule.take(kSecond);
  EXPECT_TRUE(schedule.may_send(2 * kSecond - 1));
  EXPECT_FALSE(schedule.may_send(2 * kSecond));
}

// Poisson arrivals: mean and standard deviation of the gaps are both 1 / rate, and a share of exp(-1) exceeds it.
TEST(LoadSchedule, AnOpenLoopArrivesAsPoissonDoes) {
  constexpr int kCount = 20'000;
  constexpr double kRate = 5;
  LoadSchedule schedule({0, kRate}, kCount, 0, 7, 0);
  double last = 0, sum = 0, squares = 0;
  int longer = 0;
  for (int i = 0; i < kCount; ++i) {
    const auto [number, start] = schedule.take(0);
    ASSERT_EQ(number, static_cast<size_t>(i));
    const double gap = static_cast<double>(start) * 1e-9 - last;
    ASSERT_GE(gap, 0);
    last += gap;
    sum += gap;
    squares += gap * gap;
    if (gap > 1 / kRate) ++longer;
  }
  const double mean = sum / kCount;
  EXPECT_NEAR(mean, 1 / kRate, 0.01);
  EXPECT_NEAR(std::sqrt(squares / kCount - mean * mean), 1 / kRate, 0.01);
  EXPECT_NEAR(static_cast<double>(longer) / kCount, std::exp(-1.0), 0.015);
}

TEST(LoadSchedule, ArrivalsDependOnTheSeedAlone) {
  LoadSchedule a({0, 3}, 10, 0, 1, 0), b({0, 3}, 10, 0, 1, 0), other({0, 3}, 10, 0, 2, 0);
  int differ = 0;
  for (int i = 0; i < 10; ++i) {
    const int64_t start = a.take(5).second;
    EXPECT_EQ(start, b.take(kSecond).second);
    if (start != other.take(5).second) ++differ;
  }
  EXPECT_GT(differ, 5);
}

TEST(LoadSchedule, WaitsForTheNextArrivalAndNoLonger) {
  LoadSchedule schedule({0, 1000}, 100, 0, 3, 0);
  int64_t now = 0;
  for (int i = 0; i < 100; ++i) {
    while (!schedule.due(now, 5000)) {
      const int wait = schedule.wait_ms(now);
      ASSERT_LE(wait, 100);
      now += std::max<int64_t>(wait * 1'000'000, 10'000);
    }
    EXPECT_LE(now - schedule.take(now).second, 20'000) << "an arrival was slept over";
  }
}

}  // namespace
}  // namespace ashlar
