// SPDX-License-Identifier: Apache-2.0
#include "cache/window_pages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace ashlar {
namespace {

TEST(WindowPages, LeastRecentlyClaimedPageGivesWay) {
  WindowPages window_pages(10, 3);
  for (const int32_t page : {7, 2, 5}) {
    EXPECT_EQ(window_pages.window_page_of(page), WindowPages::kNone);
    EXPECT_EQ(window_pages.claim(page).evicted, WindowPages::kNone);
  }
  const int32_t of_two = window_pages.window_page_of(2);
  EXPECT_EQ(window_pages.claim(7).evicted, WindowPages::kNone);  // now 2, 5, 7
  window_pages.begin_step();
  const WindowPages::Claim claim = window_pages.claim(9);
  EXPECT_EQ(claim.evicted, 2);
  EXPECT_EQ(claim.window_page, of_two);
  EXPECT_EQ(window_pages.window_page_of(2), WindowPages::kNone);
  EXPECT_EQ(window_pages.claim(2).evicted, 5);
  EXPECT_EQ(window_pages.claim(0).evicted, 7);
  window_pages.check_integrity();
}

TEST(WindowPages, AWindowPageForEveryPageIsNeverTaken) {
  WindowPages window_pages(4, 4);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(window_pages.claim(i % 4).evicted, WindowPages::kNone);
  window_pages.check_integrity();
}

TEST(WindowPagesDeathTest, WhatAStepClaimedStaysDuringTheStep) {
  WindowPages window_pages(10, 2);
  window_pages.begin_step();
  window_pages.claim(0);
  window_pages.claim(1);
  EXPECT_DEATH(window_pages.claim(2), "");
  window_pages.begin_step();
  window_pages.claim(0);
  EXPECT_EQ(window_pages.claim(2).evicted, 1);
  EXPECT_DEATH(window_pages.claim(1), "");
}

// Against a list of (page, window page), newest claim last.
TEST(WindowPages, AgreesWithANaiveListUnderRandomClaims) {
  std::mt19937 random(5);
  for (const int32_t most : {1, 2, 7, 30}) {
    constexpr int32_t kPages = 30;
    WindowPages window_pages(kPages, most);
    std::vector<std::pair<int32_t, int32_t>> naive;
    for (int i = 0; i < 3000; ++i) {
      window_pages.begin_step();
      // Mostly pages near each other, so that some come again soon.
      const auto page = static_cast<int32_t>((i / 50 + random() % 9) % kPages);
      const auto known = std::find_if(naive.begin(), naive.end(), [&](const auto& one) { return one.first == page; });
      WindowPages::Claim expected = {static_cast<int32_t>(naive.size()), WindowPages::kNone};
      if (known != naive.end()) {
        expected.window_page = known->second;
        naive.erase(known);
      } else if (naive.size() == static_cast<size_t>(most)) {
        expected = {naive.front().second, naive.front().first};
        naive.erase(naive.begin());
      }
      naive.emplace_back(page, expected.window_page);
      const WindowPages::Claim found = window_pages.claim(page);
      ASSERT_EQ(found.window_page, expected.window_page);
      ASSERT_EQ(found.evicted, expected.evicted);
      window_pages.check_integrity();
      for (int32_t p = 0; p < kPages; ++p) {
        const auto in = std::find_if(naive.begin(), naive.end(), [&](const auto& one) { return one.first == p; });
        ASSERT_EQ(window_pages.window_page_of(p), in == naive.end() ? WindowPages::kNone : in->second);
      }
    }
  }
}

}  // namespace
}  // namespace ashlar
