// SPDX-License-Identifier: Apache-2.0
#include "device/row_statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace ashlar {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

std::vector<float> random_row(int32_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 3);
  std::vector<float> row(n);
  for (float& value : row) value = normal(random);
  return row;
}

void expect_right(const std::vector<float>& row) {
  const RowStatistics found = row_statistics(row.data(), static_cast<int32_t>(row.size()));
  size_t best = 0;
  for (size_t i = 0; i < row.size(); ++i) {
    if (row[i] > row[best]) best = i;
  }
  size_t second = best == 0 ? 1 : 0;
  for (size_t i = 0; i < row.size(); ++i) {
    if (i != best && row[i] > row[second]) second = i;
  }
  long double sum = 0, entropy = 0;
  for (const float value : row) sum += std::exp(static_cast<long double>(value) - row[best]);
  for (const float value : row) {
    const long double p = std::exp(static_cast<long double>(value) - row[best]) / sum;
    if (p > 0) entropy -= p * std::log(p);
  }
  EXPECT_EQ(found.best, static_cast<int32_t>(best));
  EXPECT_EQ(found.second, static_cast<int32_t>(second));
  EXPECT_NEAR(found.p_best, static_cast<double>(1 / sum), 2e-6);
  EXPECT_NEAR(found.p_second, static_cast<double>(std::exp(static_cast<long double>(row[second]) - row[best]) / sum),
              2e-6);
  EXPECT_NEAR(found.log_sum, static_cast<double>(std::log(sum) + row[best]), 1e-5);
  EXPECT_NEAR(found.entropy, static_cast<double>(entropy), 1e-5);
}

TEST(RowStatistics, AgreeWithLongDoubles) {
  for (const int32_t n : {2, 7, 511, 512, 513, 1500, 8192}) {
    SCOPED_TRACE(n);
    expect_right(random_row(n, static_cast<unsigned>(n)));
    std::vector<float> masked = random_row(n, 1);
    for (size_t i = 3; i < masked.size(); i += 2) masked[i] = kNone;
    expect_right(masked);
  }
}

TEST(RowStatistics, TiesGoToTheLowestIdWhereverTheTilesEnd) {
  std::vector<float> row(2000, 1.0F);
  EXPECT_EQ(row_statistics(row.data(), 2000).best, 0);
  EXPECT_EQ(row_statistics(row.data(), 2000).second, 1);
  row[700] = row[1600] = 2.0F;
  EXPECT_EQ(row_statistics(row.data(), 2000).best, 700);
  EXPECT_EQ(row_statistics(row.data(), 2000).second, 1600);
  row[1900] = 3.0F;
  EXPECT_EQ(row_statistics(row.data(), 2000).best, 1900);
  EXPECT_EQ(row_statistics(row.data(), 2000).second, 700);
  row[5] = 2.0F;
  EXPECT_EQ(row_statistics(row.data(), 2000).second, 5);
}

TEST(RowStatistics, TilesOfNothingAreNothing) {
  std::vector<float> row(1600, kNone);
  row[1100] = 0.5F;
  const RowStatistics found = row_statistics(row.data(), 1600);
  EXPECT_EQ(found.best, 1100);
  EXPECT_EQ(found.second, 1100);
  EXPECT_EQ(found.p_best, 1.0F);
  EXPECT_EQ(found.entropy, 0.0F);
  row[3] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(row_statistics(row.data(), 1600).best, 1100);
}

}  // namespace
}  // namespace ashlar
