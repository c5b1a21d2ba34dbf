#include "kv/page_frames.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace ashlar {
namespace {

TEST(PageFrames, LeastRecentlyClaimedPageGivesWay) {
  PageFrames frames(10, 3);
  for (const int32_t page : {7, 2, 5}) {
    EXPECT_EQ(frames.frame_of(page), PageFrames::kNone);
    EXPECT_EQ(frames.claim(page).evicted, PageFrames::kNone);
  }
  const int32_t of_two = frames.frame_of(2);
  EXPECT_EQ(frames.claim(7).evicted, PageFrames::kNone);  // now 2, 5, 7
  frames.begin_step();
  const PageFrames::Claim claim = frames.claim(9);
  EXPECT_EQ(claim.evicted, 2);
  EXPECT_EQ(claim.frame, of_two);
  EXPECT_EQ(frames.frame_of(2), PageFrames::kNone);
  EXPECT_EQ(frames.claim(2).evicted, 5);
  EXPECT_EQ(frames.claim(0).evicted, 7);
  frames.check_integrity();
}

TEST(PageFrames, AFrameForEveryPageIsNeverTaken) {
  PageFrames frames(4, 4);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(frames.claim(i % 4).evicted, PageFrames::kNone);
  frames.check_integrity();
}

TEST(PageFramesDeathTest, WhatAStepClaimedStaysDuringTheStep) {
  PageFrames frames(10, 2);
  frames.begin_step();
  frames.claim(0);
  frames.claim(1);
  EXPECT_DEATH(frames.claim(2), "");
  frames.begin_step();
  frames.claim(0);
  EXPECT_EQ(frames.claim(2).evicted, 1);
  EXPECT_DEATH(frames.claim(1), "");
}

// Against a list of (page, frame), newest claim last.
TEST(PageFrames, AgreesWithANaiveListUnderRandomClaims) {
  std::mt19937 random(5);
  for (const int32_t most : {1, 2, 7, 30}) {
    constexpr int32_t kPages = 30;
    PageFrames frames(kPages, most);
    std::vector<std::pair<int32_t, int32_t>> naive;
    for (int i = 0; i < 3000; ++i) {
      frames.begin_step();
      // Mostly pages near each other, so that some come again soon.
      const auto page = static_cast<int32_t>((i / 50 + random() % 9) % kPages);
      const auto known = std::find_if(naive.begin(), naive.end(), [&](const auto& one) { return one.first == page; });
      PageFrames::Claim expected = {static_cast<int32_t>(naive.size()), PageFrames::kNone};
      if (known != naive.end()) {
        expected.frame = known->second;
        naive.erase(known);
      } else if (naive.size() == static_cast<size_t>(most)) {
        expected = {naive.front().second, naive.front().first};
        naive.erase(naive.begin());
      }
      naive.emplace_back(page, expected.frame);
      const PageFrames::Claim found = frames.claim(page);
      ASSERT_EQ(found.frame, expected.frame);
      ASSERT_EQ(found.evicted, expected.evicted);
      frames.check_integrity();
      for (int32_t p = 0; p < kPages; ++p) {
        const auto in = std::find_if(naive.begin(), naive.end(), [&](const auto& one) { return one.first == p; });
        ASSERT_EQ(frames.frame_of(p), in == naive.end() ? PageFrames::kNone : in->second);
      }
    }
  }
}

}  // namespace
}  // namespace ashlar
