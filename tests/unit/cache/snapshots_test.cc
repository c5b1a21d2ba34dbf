// SPDX-License-Identifier: Apache-2.0
// Random use of snapshots with a page cache, against a plain account of who has what.

#include "cache/snapshots.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "cache/page_cache.h"

namespace ashlar::testing {
namespace {

constexpr int32_t kPages = 12;
constexpr int32_t kSnapshots = 4;

TEST(Snapshots, TheOneHeldLongestAgoGoesFirst) {
  Snapshots snapshots(kPages, 3);
  std::vector<int32_t> ids;
  for (int32_t page = 0; page < 3; ++page) {
    ids.push_back(snapshots.take());
    snapshots.attach(ids.back(), page);
  }
  snapshots.hold(ids[0]);
  snapshots.release(ids[0]);
  EXPECT_EQ(snapshots.take(), ids[1]);
  EXPECT_EQ(snapshots.of(1), Snapshots::kNone);
  EXPECT_EQ(snapshots.of(0), ids[0]);
  snapshots.hold(ids[0]);
  EXPECT_EQ(snapshots.take(), ids[2]);
  EXPECT_EQ(snapshots.take(), Snapshots::kNone);  // two are taken and one is held
}

TEST(Snapshots, APageKeepsTheSnapshotThatItHas) {
  Snapshots snapshots(kPages, 3);
  const int32_t first = snapshots.take();
  const int32_t second = snapshots.take();
  snapshots.attach(first, 5);
  snapshots.attach(second, 5);
  EXPECT_EQ(snapshots.of(5), first);
  EXPECT_EQ(snapshots.free(), 2);
}

// Sequences of a few tokens' variety, so that prefixes are shared; each matches, takes the pages that lack, publishes,
// leaves a snapshot somewhere and goes.
TEST(Snapshots, RandomUseAgreesWithAPlainAccount) {
  std::mt19937 random(11);
  PageCache cache(kPages, PrefixIndex::mix, 1, kSnapshots);
  std::map<std::vector<int32_t>, int32_t> left;  // prefix: snapshot that was attached after it last
  int64_t found = 0;
  for (int turn = 0; turn < 20000; ++turn) {
    std::vector<int32_t> tokens;
    const auto n_pages = static_cast<int32_t>(1 + random() % 5);
    for (int32_t page = 0; page < n_pages; ++page) {
      tokens.insert(tokens.end(), kPageTokens, static_cast<int32_t>(random() % 2));
    }
    std::vector<int32_t> pages;
    PrefixCursor cursor;
    const PageCache::StateMatch match =
        cache.match_state(tokens, static_cast<int32_t>(tokens.size()), pages, 0, cursor);
    ASSERT_LE(match.tokens, match.published);
    ASSERT_EQ(match.tokens, static_cast<int32_t>(pages.size()) * kPageTokens);
    if (match.tokens > 0) {
      const std::vector<int32_t> prefix(tokens.begin(), tokens.begin() + match.tokens);
      ASSERT_TRUE(left.contains(prefix));
      ASSERT_EQ(left.at(prefix), match.snapshot);
      ASSERT_EQ(cache.snapshots().of(pages.back()), match.snapshot);
      ++found;
    }
    const int32_t taken = cache.snapshots().take();
    ASSERT_TRUE(cache.allocate(n_pages - static_cast<int32_t>(pages.size()), pages));
    cache.publish(tokens, pages, 0, cursor);
    if (taken >= 0) {
      std::erase_if(left, [taken](const auto& item) { return item.second == taken; });
      const auto after = static_cast<int32_t>(random() % (n_pages + 1));
      const int32_t free = cache.snapshots().free();
      cache.attach_snapshot(taken, cursor, after);
      if (cache.snapshots().free() == free) {
        left[std::vector<int32_t>(tokens.begin(), tokens.begin() + after * kPageTokens)] = taken;
      }
    }
    if (match.snapshot >= 0) cache.snapshots().release(match.snapshot);
    cache.release(pages);
    if (turn % 50 == 0) cache.check_integrity();
  }
  EXPECT_EQ(cache.snapshots().taken() + cache.snapshots().held(), 0);
  EXPECT_GT(found, 1000);
}

}  // namespace
}  // namespace ashlar::testing
