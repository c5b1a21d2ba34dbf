// SPDX-License-Identifier: Apache-2.0
#include "cache/page_cache.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>

#include "lettered_pages.h"

namespace ashlar {
namespace {

// Where blocks are longer than pages, a page belongs to the tokens of its whole block, and hits come in whole blocks.
TEST(PageCacheBlocks, PagesAreKeyedToTheEndOfTheirBlock) {
  PageCache cache(16, PrefixIndex::mix, 2 * kPageTokens);
  const Ids first = allocate(cache, 3);
  cache.publish(text("abc"), first);  // c's block is not complete
  EXPECT_EQ(cache.counters().published, 2U);
  Ids found;
  EXPECT_EQ(cache.match(text("axc"), tokens_in(3), found), 0);  // a was computed in sight of b
  EXPECT_EQ(cache.match(text("ab"), tokens_in(1), found), 0);   // half a block is none
  EXPECT_EQ(cache.match(text("abc"), tokens_in(3), found), tokens_in(2));
  EXPECT_EQ(found, Ids(first.begin(), first.begin() + 2));
  const Ids other = allocate(cache, 2);
  cache.publish(text("ax"), other);  // next to the first, not under it
  cache.check_integrity();
  Ids again;
  EXPECT_EQ(cache.match(text("ax"), tokens_in(2), again), tokens_in(2));
  EXPECT_EQ(again, other);
  for (const Ids& pages : {first, found, other, again}) cache.release(pages);
  cache.check_integrity();
}

// Blocks that do not divide a page: the page ends within one.
TEST(PageCacheBlocks, HitsEndWithABlockAndAPage) {
  PageCache cache(16, PrefixIndex::mix, 12);
  const Ids pages = allocate(cache, 4);
  cache.publish(text("abcd"), pages);  // 64 tokens; the block that ends in the fourth page is not complete
  EXPECT_EQ(cache.counters().published, 3U);
  Ids found;
  EXPECT_EQ(cache.match(text("abcd"), tokens_in(4), found), tokens_in(3));  // 48 = 4 blocks
  cache.release(found);
  found.clear();
  EXPECT_EQ(cache.match(text("ab"), tokens_in(2), found), 0);  // 32 is within a block
  cache.release(pages);
  cache.check_integrity();
}

TEST(PageCache, AllocatesDistinctPagesAndTakesThemBack) {
  PageCache cache(5);
  Ids pages = {77};
  ASSERT_TRUE(cache.allocate(3, pages));
  EXPECT_EQ(pages.size(), 4u);
  EXPECT_EQ(pages[0], 77);  // appended, not replaced
  pages.erase(pages.begin());
  expect_counts(cache, 2, 3, 0);
  std::sort(pages.begin(), pages.end());
  EXPECT_EQ(std::unique(pages.begin(), pages.end()), pages.end());
  EXPECT_GE(pages.front(), 0);
  EXPECT_LT(pages.back(), 5);
  cache.release(pages);
  expect_counts(cache, 5, 0, 0);
}

TEST(PageCache, AllocatesAllOrNothing) {
  PageCache cache(4);
  const Ids held = allocate(cache, 2);
  Ids pages;
  EXPECT_FALSE(cache.allocate(3, pages));
  EXPECT_TRUE(pages.empty());
  expect_counts(cache, 2, 2, 0);
  EXPECT_TRUE(cache.allocate(0, pages));
  EXPECT_TRUE(pages.empty());
  EXPECT_TRUE(cache.allocate(2, pages));
  EXPECT_FALSE(cache.allocate(1, pages));
  EXPECT_EQ(cache.available(), 0);
}

TEST(PageCache, RefusingEvictsNothing) {
  PageCache cache(4);
  store(cache, "ab");
  const Ids held = allocate(cache, 1);
  Ids pages;
  EXPECT_FALSE(cache.allocate(4, pages));
  EXPECT_EQ(probe(cache, "ab").size(), 2u);
  EXPECT_EQ(cache.counters().evictions, 0u);
}

TEST(PageCache, EmptyCacheWorks) {
  PageCache cache(0);
  Ids pages;
  EXPECT_TRUE(cache.allocate(0, pages));
  EXPECT_FALSE(cache.allocate(1, pages));
  EXPECT_EQ(cache.match(text("a"), 16, pages), 0);
  cache.drop_published();
  expect_counts(cache, 0, 0, 0);
}

TEST(PageCache, MatchFindsWholePagesOnly) {
  PageCache cache(8);
  Ids tokens = text("abc");
  const Ids pages = allocate(cache, 3);
  tokens.pop_back();  // the third page is not full
  cache.publish(tokens, pages);
  EXPECT_EQ(cache.counters().published, 2u);
  Ids found;
  EXPECT_EQ(cache.match(text("abc"), 1000, found), 32);
  EXPECT_EQ(found, Ids({pages[0], pages[1]}));
  cache.release(found);
  found.clear();
  EXPECT_EQ(cache.match(std::span(tokens).first(31), 1000, found), 16);
  cache.release(found);
  cache.release(pages);
  expect_counts(cache, 6, 0, 2);  // the unpublished page is free at once
}

TEST(PageCache, MatchStopsAtMaxTokens) {
  PageCache cache(8);
  store(cache, "abc");
  for (const auto& [limit, expected] :
       {std::pair{-5, 0}, {0, 0}, {15, 0}, {16, 16}, {31, 16}, {32, 32}, {47, 32}, {48, 48}, {1 << 30, 48}}) {
    Ids found;
    EXPECT_EQ(cache.match(text("abcd"), limit, found), expected) << limit;
    cache.release(found);
  }
}

TEST(PageCache, MatchComparesTheWholePrefix) {
  PageCache cache(8);
  store(cache, "abc");
  EXPECT_EQ(probe(cache, "abx").size(), 2u);
  EXPECT_EQ(probe(cache, "axc").size(), 1u);
  EXPECT_EQ(probe(cache, "xbc").size(), 0u);
  EXPECT_EQ(probe(cache, "bc").size(), 0u);  // the same pages at another place are other pages
  Ids one_off = text("ab");
  one_off[tokens_in(1) + 15] += 1;
  Ids found;
  EXPECT_EQ(cache.match(one_off, 1000, found), 16);
  cache.release(found);
}

TEST(PageCache, EqualPagesAtDifferentPlacesAreDifferentNodes) {
  PageCache cache(8);
  const Ids pages = store(cache, "aaaa");
  EXPECT_EQ(cache.cached_pages(), 4);
  EXPECT_EQ(probe(cache, "aaaaa"), pages);
}

TEST(PageCache, SaltsNeverMeet) {
  PageCache cache(8);
  const Ids first = store(cache, "ab", 1);
  EXPECT_TRUE(probe(cache, "ab", 0).empty());
  EXPECT_TRUE(probe(cache, "ab", 2).empty());
  const Ids second = store(cache, "ab", 2);
  EXPECT_EQ(probe(cache, "ab", 1), first);
  EXPECT_EQ(probe(cache, "ab", 2), second);
  EXPECT_EQ(cache.cached_pages(), 4);
}

TEST(PageCache, ReferencesAddUp) {
  PageCache cache(4);
  const Ids pages = hold(cache, "ab");
  Ids second, third;
  cache.match(text("ab"), 32, second);
  cache.match(text("a"), 32, third);
  EXPECT_EQ(second, pages);
  expect_counts(cache, 2, 2, 0);
  cache.release(pages);
  expect_counts(cache, 2, 2, 0);
  cache.release(second);
  expect_counts(cache, 2, 1, 1);
  cache.release(third);
  expect_counts(cache, 2, 0, 2);
}

TEST(PageCache, DropPublishedForgetsWhatNobodyHolds) {
  PageCache cache(8);
  store(cache, "abc");
  Ids held;
  cache.match(text("ab"), 32, held);
  store(cache, "x");
  cache.drop_published();
  expect_counts(cache, 6, 2, 0);
  EXPECT_EQ(probe(cache, "abc").size(), 2u);
  cache.release(held);
  cache.drop_published();
  expect_counts(cache, 8, 0, 0);
  EXPECT_EQ(cache.counters().evictions, 0u);
}

TEST(PageCache, CountersCount) {
  PageCache cache(2);
  store(cache, "ab");
  Ids found;
  cache.match(text("abc"), 40, found);
  EXPECT_EQ(cache.counters().matched_tokens, 32u);
  EXPECT_EQ(cache.counters().missed_tokens, 8u);
  cache.release(found);
  allocate(cache, 2);
  EXPECT_EQ(cache.counters().evictions, 2u);
  EXPECT_EQ(cache.counters().published, 2u);
}

TEST(PageCache, CollisionsOfTheHashDoNotMatter) {
  PageCache cache(64, [](int32_t, uint64_t, PageTokens) -> uint64_t { return 7; });
  std::vector<Ids> stored;
  const std::vector<std::string> texts = {"abcd", "bcda", "cdab", "dabc", "dcba", "aabb"};
  for (const std::string& letters : texts) stored.push_back(store(cache, letters));
  for (size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(probe(cache, texts[i]).size(), 4u) << texts[i];
    EXPECT_TRUE(probe(cache, texts[i], 1).empty());
  }
  EXPECT_EQ(probe(cache, "dabc"), stored[3]);
  EXPECT_EQ(probe(cache, "aaaa").size(), 2u);
  EXPECT_TRUE(probe(cache, "eabc").empty());
  const Ids all = allocate(cache, 64);
  EXPECT_EQ(probe(cache, "abcd").size(), 0u);
}

TEST(PageCacheDeath, BrokenUseAborts) {
  PageCache cache(4);
  const Ids pages = allocate(cache, 1);
  const Ids none = {3};
  EXPECT_DEATH(cache.release(none), "check failed");
  const Ids outside = {4};
  EXPECT_DEATH(cache.release(outside), "check failed");
  EXPECT_DEATH(cache.release(Ids{-1}), "check failed");
  EXPECT_DEATH(cache.publish(text("ab"), pages), "check failed");
  EXPECT_DEATH(cache.publish(text("a"), none), "check failed");  // not held by the caller
  cache.publish(text("a"), pages);
  EXPECT_DEATH(cache.publish(text("b"), pages), "check failed");  // already published as something else
  EXPECT_DEATH(cache.publish(text("a"), pages, 9), "check failed");
}

}  // namespace
}  // namespace ashlar
