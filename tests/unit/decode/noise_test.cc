// SPDX-License-Identifier: Apache-2.0
// Invariant: counter-based-noise.

#include "device/sampling/noise.h"

#include <gtest/gtest.h>

#include <cmath>

#include "decode/check_sampling.h"
#include "golden/golden_data.h"

namespace ashlar::testing {
namespace {

TEST(Philox, MatchesPublishedAnswers) {
  const Json vectors = read_json_file(data_folder() / "sampling" / "philox.json");
  ASSERT_GE(vectors.size(), 10U);
  for (const Json& vector : vectors) {
    const PhiloxBlock counter = {vector["counter"][0], vector["counter"][1], vector["counter"][2],
                                 vector["counter"][3]};
    const PhiloxBlock expected = {vector["output"][0], vector["output"][1], vector["output"][2], vector["output"][3]};
    EXPECT_EQ(philox4x32(counter, vector["key"][0], vector["key"][1]), expected);
  }
}

TEST(Gumbel, StaysBelowItsBound) {
  for (const uint32_t word : {0U, 1U, 0x7FFFFFFFU, 0x80000000U, 0xFFFFFFFEU, 0xFFFFFFFFU}) {
    EXPECT_LE(noise::gumbel(word), noise::gumbel_bound(word)) << word;
    EXPECT_TRUE(std::isfinite(noise::gumbel(word)));
  }
  for (uint32_t i = 0; i < 200000; ++i) {
    const uint32_t word = noise::word(5, 1, static_cast<int32_t>(i), noise::Domain::kGumbel);
    ASSERT_LE(noise::gumbel(word), noise::gumbel_bound(word)) << word;
  }
}

TEST(Gumbel, HasTheMomentsOfItsDistribution) {
  constexpr int kDraws = 200000;
  double sum = 0;
  double squares = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double g = noise::gumbel(noise::word(99, i / 1000, i % 1000, noise::Domain::kGumbel));
    sum += g;
    squares += g * g;
  }
  const double mean = sum / kDraws;
  const double variance = squares / kDraws - mean * mean;
  EXPECT_NEAR(mean, 0.5772156649, 3 * std::sqrt(1.6449 / kDraws));
  EXPECT_NEAR(variance, 1.6449340668, 0.03);
}

TEST(Noise, DiffersBySeedPositionTokenAndDomain) {
  const uint32_t word = noise::word(1, 2, 3, noise::Domain::kGumbel);
  EXPECT_NE(word, noise::word(2, 2, 3, noise::Domain::kGumbel));
  EXPECT_NE(word, noise::word(uint64_t{1} << 32 | 1, 2, 3, noise::Domain::kGumbel));
  EXPECT_NE(word, noise::word(1, 3, 3, noise::Domain::kGumbel));
  EXPECT_NE(word, noise::word(1, 2, 4, noise::Domain::kGumbel));
  EXPECT_NE(word, noise::word(1, 2, 3, noise::Domain::kDraft));
}

TEST(ChoiceSeed, KeepsTheFirstAndSeparatesTheRest) {
  EXPECT_EQ(choice_seed(42, 0), 42U);
  EXPECT_NE(choice_seed(42, 1), choice_seed(42, 2));
  EXPECT_NE(choice_seed(42, 1), choice_seed(43, 1));
}

}  // namespace
}  // namespace ashlar::testing
