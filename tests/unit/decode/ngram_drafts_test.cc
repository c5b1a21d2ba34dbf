// SPDX-License-Identifier: Apache-2.0
#include "decode/propose/ngram_drafts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace ashlar::testing {
namespace {

using Ids = std::vector<int32_t>;

NgramMatcher matcher_of(const Ids& tokens) {
  NgramMatcher matcher;
  matcher.begin(tokens, static_cast<int32_t>(tokens.size()));
  return matcher;
}

Ids drafts_of(const NgramMatcher& matcher, size_t n) {
  Ids ids(n);
  std::vector<float> chances(n);
  matcher.drafts(ids, chances, NgramOdds());
  return ids;
}

TEST(NgramMatcher, DraftsWhatFollowedTheSameTokens) {
  const NgramMatcher matcher = matcher_of({5, 6, 7, 8, 9, 1, 5, 6});
  EXPECT_EQ(matcher.match(), 2);
  EXPECT_EQ(drafts_of(matcher, 4), (Ids{7, 8, 9, 1}));
}

TEST(NgramMatcher, NeedsTwoTokensThatStoodThereBefore) {
  for (const Ids& tokens : {Ids{}, Ids{5}, Ids{5, 6}, Ids{5, 6, 7}, Ids{5, 6, 7, 5}, Ids{6, 5, 7, 8, 5, 6}}) {
    EXPECT_EQ(matcher_of(tokens).match(), 0) << ::testing::PrintToString(tokens);
  }
}

TEST(NgramMatcher, PrefersTheLongestMatchAndOfEqualsTheNewest) {
  const NgramMatcher longest = matcher_of({4, 5, 6, 70, 9, 5, 6, 80, 4, 5, 6});
  EXPECT_EQ(longest.match(), 3);
  EXPECT_EQ(drafts_of(longest, 1), (Ids{70}));
  const NgramMatcher newest = matcher_of({5, 6, 70, 5, 6, 80, 5, 6});
  EXPECT_EQ(drafts_of(newest, 1), (Ids{80}));
}

TEST(NgramMatcher, GoesOnInCircles) {
  EXPECT_EQ(drafts_of(matcher_of({9, 1, 2, 3, 1, 2, 3, 1, 2}), 7), (Ids{3, 1, 2, 3, 1, 2, 3}));
  EXPECT_EQ(drafts_of(matcher_of({7, 7, 7}), 4), (Ids{7, 7, 7, 7}));
}

// The longest match by comparing with every place; the newest of equals.
std::pair<int32_t, int32_t> by_brute_force(const Ids& tokens, int32_t longest) {
  std::pair<int32_t, int32_t> best = {0, 0};
  const auto last = static_cast<int32_t>(tokens.size()) - 1;
  for (int32_t at = last - 1; at >= 1; --at) {
    int32_t match = 0;
    while (match < longest && match <= at && tokens[at - match] == tokens[last - match]) ++match;
    if (match >= NgramMatcher::kMinMatch && match > best.first) best = {match, at + 1};
  }
  return best;
}

TEST(NgramMatcher, FindsWhatEveryPlaceComparedFinds) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    const int32_t alphabet = 2 + round % 40;
    const auto begun = static_cast<size_t>(random() % 20);
    Ids tokens;
    for (size_t i = 0; i < begun; ++i) tokens.push_back(static_cast<int32_t>(random() % alphabet));
    NgramMatcher matcher;
    NgramOdds odds;
    matcher.begin(tokens, 60);
    while (tokens.size() < 60) {
      Ids next(1 + random() % 5);
      for (int32_t& id : next) id = static_cast<int32_t>(random() % alphabet);
      matcher.append(next, odds);
      tokens.insert(tokens.end(), next.begin(), next.end());
      const auto [match, from] = by_brute_force(tokens, 24);
      ASSERT_EQ(matcher.match(), match) << ::testing::PrintToString(tokens);
      if (match == 0) continue;
      ASSERT_EQ(drafts_of(matcher, 1)[0], tokens[static_cast<size_t>(from)]);
    }
  }
}

TEST(NgramMatcher, LooksAtFewPlacesOfWhatStandsEverywhere) {
  for (const int32_t between : {10, 1000}) {
    Ids tokens = {7, 1, 2};
    for (int32_t i = 0; i < between; ++i) tokens.insert(tokens.end(), {100 + i, 1, 2});
    tokens.insert(tokens.end(), {7, 1, 2});
    EXPECT_EQ(matcher_of(tokens).match(), between == 10 ? 3 : 2);
  }
}

// The chance of the first draft where nothing is known but the common odds.
double first_chance(const NgramMatcher& matcher, const NgramOdds& common) {
  int32_t id = 0;
  float chance = 0;
  matcher.drafts({&id, 1}, {&chance, 1}, common);
  return chance;
}

TEST(NgramMatcher, LearnsWhetherDraftsAreUsedOrNot) {
  NgramOdds good, bad;
  NgramMatcher circle = matcher_of({1, 2, 1, 2});
  NgramMatcher wrong = matcher_of({1, 2, 3, 1, 2});
  int32_t odd = 100;
  for (int i = 0; i < 200; ++i) {
    circle.append(Ids{1, 2}, good);
    wrong.append(Ids{odd++, 1, 2}, bad);  // the first draft is wrong, those after it are not verified
  }
  EXPECT_GT(good.of(24), 0.97);
  EXPECT_LT(bad.of(2), 0.1);
  EXPECT_DOUBLE_EQ(bad.of(3), NgramOdds().of(3));
  EXPECT_GT(first_chance(circle, bad), 0.97);  // a sequence has odds of its own
  EXPECT_LT(first_chance(wrong, good), 0.1);
  EXPECT_DOUBLE_EQ(first_chance(matcher_of({1, 2, 3, 1, 2}), bad), static_cast<float>(bad.of(2)));  // until it has
}

TEST(NgramMatcher, ChancesAreOfAllDraftsUpToOne) {
  const NgramMatcher matcher = matcher_of({1, 2, 3, 4, 5, 6, 1, 2});
  NgramOdds odds;
  Ids ids(5);
  std::vector<float> chances(5);
  matcher.drafts(ids, chances, odds);
  double all = 1;
  for (int32_t k = 0; k < 5; ++k) {
    all *= odds.of(2 + k);
    EXPECT_FLOAT_EQ(chances[static_cast<size_t>(k)], static_cast<float>(all));
  }
}

TEST(NgramOdds, LongerMatchesCountApart) {
  NgramOdds odds;
  for (int i = 0; i < 500; ++i) odds.learn(7, i % 4 == 0, 0.01);
  EXPECT_NEAR(odds.of(7), 0.25, 0.05);
  EXPECT_DOUBLE_EQ(odds.of(8), odds.of(7));
  for (const int32_t match : {2, 3, 4, 5, 9, 13, 17, 1000}) EXPECT_DOUBLE_EQ(odds.of(match), NgramOdds().of(match));
}

}  // namespace
}  // namespace ashlar::testing
