// SPDX-License-Identifier: Apache-2.0
// Candidates of a row against the whole row.

#include "device/sampling/likeliest_tokens.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "device/sampling/noise.h"

namespace ashlar::testing {
namespace {

std::vector<float> normal_row(std::mt19937& random, int32_t n) {
  std::vector<float> row(static_cast<size_t>(n));
  for (float& value : row) value = std::normal_distribution<float>(0, 3)(random);
  return row;
}

TEST(LikeliestTokens, GreedyOnesAreTheMostLikelyWithTheirProbabilities) {
  std::mt19937 random(1);
  SamplerScratch scratch;
  for (const int32_t n : {1, 5, 8, 9, 63, 64, 65, 1000, 8192}) {
    const std::vector<float> row = normal_row(random, n);
    std::vector<int32_t> order(row.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int32_t a, int32_t b) { return row[static_cast<size_t>(a)] > row[static_cast<size_t>(b)]; });
    double total = 0;
    for (const float value : row) total += std::exp(static_cast<double>(value));
    LikeliestTokens out;
    find_likeliest(row.data(), n, {}, 3, nullptr, scratch, out);
    ASSERT_EQ(out.n, std::min(n, LikeliestTokens::kMost));
    for (int32_t i = 0; i < out.n; ++i) {
      const auto at = static_cast<size_t>(i);
      ASSERT_EQ(out.ids[at], order[at]) << n;
      const double chance = std::exp(row[static_cast<size_t>(order[at])]) / total;
      const double rest = 1.0 - std::exp(row[static_cast<size_t>(order[0])]) / total;  // is known to 4 %
      ASSERT_NEAR(std::exp(out.log_chance[at]), chance, 0.042 * rest * chance + 1e-6) << n;
    }
  }
}

// Whatever is sampled from a row is the first candidate of that row: the chain inside the tree is the one that would
// have been drafted alone.
TEST(LikeliestTokens, TheFirstIsTheSampledToken) {
  std::mt19937 random(2);
  SamplerScratch scratch;
  std::vector<int32_t> map(500);
  for (size_t i = 0; i < map.size(); ++i) map[i] = static_cast<int32_t>(3 * i + 1);
  for (int round = 0; round < 400; ++round) {
    const std::vector<float> row = normal_row(random, 500);
    SamplingParams params;
    params.temperature = 0.2 + 0.4 * (round % 4);
    params.seed = static_cast<uint64_t>(round);
    if (round % 3 == 1) params.top_p = 0.8;
    if (round % 3 == 2) params.top_k = 2;
    const int32_t* id_map = round % 2 == 0 ? map.data() : nullptr;
    LikeliestTokens out;
    find_likeliest(row.data(), 500, params, round, id_map, scratch, out);
    ASSERT_EQ(out.ids[0], sample_token(row.data(), 500, params, round, id_map, scratch)) << round;
    ASSERT_EQ(out.n, LikeliestTokens::kMost);
    double sum = 0;
    for (int32_t i = 0; i < out.n; ++i) {
      const auto at = static_cast<size_t>(i);
      if (i > 0) {
        ASSERT_LE(out.log_chance[at], out.log_chance[at - 1]);
      }
      ASSERT_EQ(std::count(out.ids.begin(), out.ids.end(), out.ids[at]), 1);
      sum += std::exp(out.log_chance[at]);
    }
    ASSERT_LE(sum, 1.0001);
  }
}

// The promise of the chances: a target whose logits are the drafter's with an error of the size its softmax admits
// chooses the candidates about as often as they say.
TEST(LikeliestTokens, ChancesAreHowOftenANoisyTargetAgrees) {
  std::mt19937 random(3);
  std::extreme_value_distribution<double> error(0, 1);  // Gumbel
  SamplerScratch scratch;
  for (const double temperature : {0.0, 0.7, 1.0}) {
    double said = 0, first = 0;
    int hits = 0, first_hits = 0;
    constexpr int kRounds = 4000;
    for (int round = 0; round < kRounds; ++round) {
      const std::vector<float> row = normal_row(random, 40);
      SamplingParams params;
      params.temperature = temperature;
      params.seed = static_cast<uint64_t>(round);
      LikeliestTokens out;
      find_likeliest(row.data(), 40, params, 1, nullptr, scratch, out);
      std::vector<float> target = row;
      for (float& value : target) value += static_cast<float>(error(random));
      const int32_t token = sample_token(target.data(), 40, params, 1, nullptr, scratch);
      for (int32_t i = 0; i < out.n; ++i) {
        const auto at = static_cast<size_t>(i);
        said += std::exp(out.log_chance[at]);
        hits += out.ids[at] == token ? 1 : 0;
      }
      first += std::exp(out.log_chance[0]);
      first_hits += out.ids[0] == token ? 1 : 0;
    }
    EXPECT_NEAR(hits, said, 0.04 * kRounds) << temperature;
    EXPECT_NEAR(first_hits, first, 0.04 * kRounds) << temperature;
  }
}

TEST(LikeliestTokens, NothingButInfinitiesGivesNone) {
  const std::vector<float> row(20, -INFINITY);
  SamplerScratch scratch;
  LikeliestTokens out;
  out.n = 3;
  find_likeliest(row.data(), 20, {}, 0, nullptr, scratch, out);
  EXPECT_EQ(out.n, 0);
}

}  // namespace
}  // namespace ashlar::testing
