// SPDX-License-Identifier: Apache-2.0
#include "device/sampling/gumbel_max.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "device/sampling/noise.h"

namespace ashlar {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

// By the definition: a logarithm for every token.
int32_t by_definition(const std::vector<float>& logits, double inverse, Draw draw) {
  double best = -std::numeric_limits<double>::infinity();
  int32_t id = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    const auto token = static_cast<int32_t>(i);
    const double noise = noise::gumbel(noise::word(draw.seed, draw.position, token, noise::Domain::kGumbel));
    if (logits[i] * inverse + noise > best) {
      best = logits[i] * inverse + noise;
      id = token;
    }
  }
  return id;
}

std::vector<float> random_row(std::mt19937& random, int32_t n, float spread) {
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> row(n);
  for (float& value : row) value = normal(random);
  return row;
}

void expect_all_agree(const std::vector<float>& row, double inverse, Draw draw) {
  const auto n = static_cast<int32_t>(row.size());
  const int32_t expected = by_definition(row, inverse, draw);
  EXPECT_EQ(gumbel_max(row.data(), n, inverse, draw), expected) << n << " " << inverse << " " << draw.position;
  EXPECT_EQ(gumbel_max_scalar(row.data(), n, inverse, draw), expected) << n << " " << inverse << " " << draw.position;
}

TEST(GumbelMax, IsTheDefinitionAtEveryLengthAndTemperature) {
  std::mt19937 random(1);
  for (int32_t round = 0; round < 400; ++round) {
    const auto n = static_cast<int32_t>(1 + random() % 700);
    const double inverse = std::vector<double>{0.5, 1.0, 1 / 0.7, 10.0, 1e4, 1e7}[random() % 6];
    const Draw draw = {random() | uint64_t{random()} << 32, round};
    expect_all_agree(random_row(random, n, 3.0F), inverse, draw);
    expect_all_agree(random_row(random, n, 1e5F), inverse, draw);
  }
}

// With one logit for all of them the noise alone decides, its highest words too.
TEST(GumbelMax, LetsTheNoiseDecideAmongEqualLogits) {
  for (int32_t position = 0; position < 300; ++position) {
    expect_all_agree(std::vector<float>(8192, -2.5F), 1.0, {7, position});
  }
}

TEST(GumbelMax, PassesOverWhatIsForbiddenOrNoNumber) {
  std::mt19937 random(3);
  for (int32_t position = 0; position < 200; ++position) {
    std::vector<float> row = random_row(random, 300, 2.0F);
    for (size_t i = 0; i < row.size(); ++i) {
      if (random() % 3 == 0) row[i] = kNone;
      if (random() % 9 == 0) row[i] = std::nanf("");
    }
    expect_all_agree(row, 1.25, {5, position});
  }
  const std::vector<float> nothing(130, kNone);
  EXPECT_EQ(gumbel_max(nothing.data(), 130, 1.0, {1, 1}), 0);
  const std::vector<float> no_numbers(130, std::nanf(""));
  EXPECT_EQ(gumbel_max(no_numbers.data(), 130, 1.0, {1, 1}), 0);
  std::vector<float> endless(130, 1.0F);
  endless[99] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(gumbel_max(endless.data(), 130, 1.0, {1, 1}), 99);
}

TEST(GumbelMax, ThroughAMapIsThatOfTheTokensItHas) {
  std::mt19937 random(4);
  for (int32_t position = 0; position < 200; ++position) {
    std::vector<float> whole(1000, kNone);
    std::vector<int32_t> map;
    std::vector<float> part;
    for (int32_t id = static_cast<int32_t>(random() % 5); id < 1000; id += 1 + static_cast<int32_t>(random() % 6)) {
      part.push_back(static_cast<float>(random() % 100) / 20);
      whole[id] = part.back();
      map.push_back(id);
    }
    const Draw draw = {9, position};
    EXPECT_EQ(gumbel_max_mapped(part.data(), static_cast<int32_t>(part.size()), 0.8, draw, map.data()),
              by_definition(whole, 0.8, draw));
  }
}

}  // namespace
}  // namespace ashlar
