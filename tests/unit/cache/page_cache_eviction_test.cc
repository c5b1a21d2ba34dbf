// SPDX-License-Identifier: Apache-2.0
// Which pages go when there are no others, and where duplicates of pages lie.

#include <gtest/gtest.h>

#include "lettered_pages.h"

namespace ashlar {
namespace {

TEST(PageCacheEviction, HeldPagesAreNeverEvicted) {
  PageCache cache(4);
  const Ids pages = hold(cache, "ab");
  const Ids others = allocate(cache, 2);
  Ids more;
  EXPECT_FALSE(cache.allocate(1, more));
  EXPECT_EQ(cache.available(), 0);
  EXPECT_EQ(probe(cache, "ab"), pages);
}

TEST(PageCacheEviction, EvictsLeastRecentlyHeldFirst) {
  PageCache cache(3);
  store(cache, "a");
  store(cache, "b");
  store(cache, "c");
  probe(cache, "a");  // a is now the youngest
  const Ids fresh = allocate(cache, 1);
  EXPECT_TRUE(probe(cache, "b").empty());
  cache.release(fresh);
  const Ids two = allocate(cache, 2);  // the free one and c
  EXPECT_TRUE(probe(cache, "c").empty());
  EXPECT_EQ(probe(cache, "a").size(), 1u);
  EXPECT_EQ(cache.counters().evictions, 2u);
}

TEST(PageCacheEviction, EvictsLeavesBeforeParents) {
  PageCache cache(4);
  store(cache, "abcd");
  for (int32_t evicted = 1; evicted <= 4; ++evicted) {
    const Ids fresh = allocate(cache, evicted);
    EXPECT_EQ(probe(cache, "abcd").size(), static_cast<size_t>(4 - evicted));
    cache.release(fresh);
  }
}

TEST(PageCacheEviction, ABranchOutlivesItsOlderSibling) {
  PageCache cache(4);
  store(cache, "ab");
  Ids branch;
  cache.match(text("ac"), 16, branch);
  ASSERT_TRUE(cache.allocate(1, branch));
  cache.publish(text("ac"), branch);
  cache.release(branch);
  EXPECT_EQ(cache.cached_pages(), 3);
  const Ids fresh = allocate(cache, 2);  // one free, then the oldest leaf
  EXPECT_EQ(probe(cache, "ab").size(), 1u);
  EXPECT_EQ(probe(cache, "ac").size(), 2u);
}

TEST(PageCacheEviction, PublishingTwiceChangesNothing) {
  PageCache cache(4);
  const Ids pages = hold(cache, "ab");
  cache.publish(text("ab"), pages);
  cache.publish(text("a"), pages);
  EXPECT_EQ(cache.counters().published, 2u);
  expect_counts(cache, 2, 2, 0);
}

TEST(PageCacheEviction, PublishingGrowsWithTheSequence) {
  PageCache cache(6);
  const Ids pages = allocate(cache, 6);
  const Ids tokens = text("abcdef");
  PrefixCursor cursor;
  for (int32_t n = 0; n <= tokens_in(6); ++n) {
    cache.publish(std::span(tokens).first(n), pages, 0, cursor);
    ASSERT_EQ(cache.counters().published, static_cast<uint64_t>(n / kPageTokens));
    cache.check_integrity();
  }
  cache.release(pages);
  EXPECT_EQ(probe(cache, "abcdef"), pages);
}

TEST(PageCacheEviction, ADuplicateStaysPrivateAndItsChildrenHangUnderTheFirst) {
  PageCache cache(8);
  const Ids first = hold(cache, "ab");
  const Ids second = hold(cache, "abc");  // computed at the same time, without a match
  EXPECT_EQ(cache.counters().published, 3u);
  EXPECT_EQ(probe(cache, "abc"), Ids({first[0], first[1], second[2]}));
  cache.release(second);
  expect_counts(cache, 5, 2, 1);  // a' and b' are free, c is cached
  cache.release(first);
  expect_counts(cache, 5, 0, 3);
  EXPECT_EQ(probe(cache, "abc"), Ids({first[0], first[1], second[2]}));
}

TEST(PageCacheEviction, AParentNobodyHoldsStaysWhileItsChildIsHeld) {
  PageCache cache(4);
  const Ids first = hold(cache, "a");
  const Ids second = hold(cache, "ab");  // b hangs under first[0]
  cache.release(first);
  expect_counts(cache, 1, 2, 1);
  EXPECT_EQ(cache.available(), 1);  // a is cached, but b stands on it
  Ids pages;
  EXPECT_FALSE(cache.allocate(2, pages));
  cache.drop_published();
  EXPECT_EQ(probe(cache, "ab"), Ids({first[0], second[1]}));
  cache.release(second);
  EXPECT_EQ(cache.available(), 4);
}

TEST(PageCacheEviction, ACursorStandsOnTheOtherPageWhereADuplicateLies) {
  PageCache cache(8);
  const Ids first = hold(cache, "a");
  const Ids second = allocate(cache, 3);
  PrefixCursor cursor;
  cache.publish(text("a"), second, 0, cursor);  // stays private
  EXPECT_EQ(cursor.node, first[0]);
  cache.publish(text("ab"), second, 0, cursor);
  cache.publish(text("abc"), second, 0, cursor);
  EXPECT_EQ(probe(cache, "abc"), Ids({first[0], second[1], second[2]}));
}

TEST(PageCacheEviction, ADuplicateIsPublishedOnceTheFirstIsGone) {
  PageCache cache(2);
  const Ids first = hold(cache, "a");
  const Ids second = allocate(cache, 1);
  PrefixCursor cursor;
  cache.publish(text("a"), second, 0, cursor);
  cache.release(first);
  Ids third = allocate(cache, 1);  // evicts first
  EXPECT_TRUE(probe(cache, "a").empty());
  cache.publish(text("b"), third);  // the cursor's page is a node again, of other tokens
  cache.publish(text("a"), second, 0, cursor);
  EXPECT_EQ(probe(cache, "a"), second);
  EXPECT_EQ(probe(cache, "b"), third);
}

}  // namespace
}  // namespace ashlar
