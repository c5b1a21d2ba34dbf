// SPDX-License-Identifier: Apache-2.0
// Publishing that continues where it stopped, against publishing from the start.

#include <gtest/gtest.h>

#include <random>

#include "cache/page_cache.h"

namespace ashlar {
namespace {

using CursorIds = std::vector<int32_t>;

struct Live {
  uint64_t salt = 0;
  CursorIds tokens;
  CursorIds pages;
  PrefixCursor cursor;  // of the first cache; the second publishes without
};

struct CursorCase {
  const char* name;
  int32_t block;
  int32_t pages;
};

// One cache is given cursors, the other one looks everything up again. What they do to pages must be the same.
class Cursors : public ::testing::TestWithParam<CursorCase> {
 protected:
  int32_t below(int32_t n) { return static_cast<int32_t>(random_() % static_cast<uint32_t>(n)); }

  // Few distinct pages, so that prefixes meet and part; whole blocks and a rest.
  void add_tokens(CursorIds& tokens, int32_t count) {
    for (int32_t i = 0; i < count; ++i) {
      if (tokens.size() % kPageTokens == 0) letter_ = below(2);
      tokens.push_back(letter_);
    }
  }

  bool allocate(Live& sequence) {
    const auto needed = static_cast<int32_t>((sequence.tokens.size() + kPageTokens - 1) / kPageTokens);
    const int32_t missing = needed - static_cast<int32_t>(sequence.pages.size());
    CursorIds again = sequence.pages;
    const bool fits = cache_.allocate(missing, sequence.pages);
    EXPECT_EQ(plain_.allocate(missing, again), fits);
    EXPECT_EQ(again, sequence.pages);
    return fits;
  }

  void begin() {
    Live sequence;
    sequence.salt = below(6) == 0 ? 1 : 0;
    add_tokens(sequence.tokens, 1 + below(5 * kPageTokens));
    if (below(3) != 0) {  // else computed again: duplicates
      const auto most = static_cast<int32_t>(sequence.tokens.size()) - below(2);
      CursorIds again;
      const int32_t covered = cache_.match(sequence.tokens, most, sequence.pages, sequence.salt, sequence.cursor);
      EXPECT_EQ(plain_.match(sequence.tokens, most, again, sequence.salt), covered);
      EXPECT_EQ(again, sequence.pages);
    }
    live_.push_back(sequence);
    if (!allocate(live_.back())) end(live_.size() - 1);
  }

  void grow(Live& sequence) {
    if (sequence.tokens.size() > 10 * kPageTokens) return;
    const CursorIds before = sequence.tokens;
    add_tokens(sequence.tokens, 1 + below(2 * kPageTokens));
    if (!allocate(sequence)) sequence.tokens = before;
  }

  void publish(Live& sequence) {
    cache_.publish(sequence.tokens, sequence.pages, sequence.salt, sequence.cursor);
    plain_.publish(sequence.tokens, sequence.pages, sequence.salt);
  }

  void end(size_t index) {
    cache_.release(live_[index].pages);
    plain_.release(live_[index].pages);
    live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(index));
  }

  std::mt19937 random_{7};
  PageCache cache_{GetParam().pages, PrefixIndex::mix, GetParam().block};
  PageCache plain_{GetParam().pages, PrefixIndex::mix, GetParam().block};
  std::vector<Live> live_;
  int32_t letter_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Blocks, Cursors,
                         ::testing::Values(CursorCase{"tokens", 1, 24}, CursorCase{"roomy", 1, 90},
                                           CursorCase{"twelve", 12, 24}, CursorCase{"two_pages", 2 * kPageTokens, 30},
                                           CursorCase{"three_pages", 3 * kPageTokens, 40}),
                         [](const auto& info) { return info.param.name; });

TEST_P(Cursors, LeaveTheIndexThatPublishingFromTheStartLeaves) {
  for (int32_t i = 0; i < 20000 && !HasFailure(); ++i) {
    const auto live = static_cast<int32_t>(live_.size());
    const int32_t kind = below(10);
    if (live == 0 || (kind < 2 && live < 5)) {
      begin();
    } else if (kind < 5) {
      grow(live_[below(live)]);
    } else if (kind < 9) {
      publish(live_[below(live)]);
    } else if (below(200) == 0) {
      cache_.drop_published();
      plain_.drop_published();
    } else {
      end(below(live));
    }
    if (i % 16 == 0) cache_.check_integrity();
    ASSERT_EQ(cache_.free_pages(), plain_.free_pages()) << "operation " << i;
    ASSERT_EQ(cache_.available(), plain_.available()) << "operation " << i;
    ASSERT_EQ(cache_.counters().published, plain_.counters().published) << "operation " << i;
  }
  EXPECT_GT(cache_.counters().evictions, 1000U);
  EXPECT_GT(cache_.counters().published, 1000U);
  EXPECT_LT(cache_.counters().lookups, plain_.counters().lookups);
}

// Each step of a long sequence looks at what is new, whether its pages are its own or those of a twin.
TEST(PageCache, PublishingLooksUpNewPagesOnly) {
  constexpr int32_t kPages = 500;
  PageCache cache(2 * kPages);
  CursorIds tokens;
  for (int32_t i = 0; i < kPages * kPageTokens; ++i) tokens.push_back(i);
  for (const char* whose : {"own", "a twin's"}) {
    SCOPED_TRACE(whose);
    CursorIds pages;
    ASSERT_TRUE(cache.allocate(kPages, pages));
    PrefixCursor cursor;
    for (int32_t n = 0; n <= kPages * kPageTokens; n += 4) {
      const uint64_t before = cache.counters().lookups;
      cache.publish(std::span(tokens).first(static_cast<size_t>(n)), pages, 0, cursor);
      ASSERT_LE(cache.counters().lookups - before, 1U) << n;
    }
    EXPECT_EQ(cursor.pages, kPages);
  }
  EXPECT_EQ(cache.counters().published, static_cast<uint64_t>(kPages));
  EXPECT_EQ(cache.counters().lookups, uint64_t{2} * kPages);
  cache.check_integrity();
}

// A sequence that comes back from the queue goes on after what it matched.
TEST(PageCache, PublishingGoesOnBehindAMatch) {
  PageCache cache(64);
  CursorIds tokens(40 * kPageTokens, 3);
  CursorIds first;
  ASSERT_TRUE(cache.allocate(30, first));
  cache.publish(std::span(tokens).first(30 * kPageTokens), first);
  cache.release(first);
  CursorIds pages;
  PrefixCursor cursor;
  EXPECT_EQ(cache.match(tokens, 1 << 20, pages, 0, cursor), 30 * kPageTokens);
  ASSERT_TRUE(cache.allocate(10, pages));
  const uint64_t before = cache.counters().lookups;
  cache.publish(tokens, pages, 0, cursor);
  EXPECT_EQ(cache.counters().lookups - before, 10U);
  EXPECT_EQ(cursor.node, pages.back());
  cache.check_integrity();
}

TEST(PageCache, SaysWhetherAMatchMayHaveGrown) {
  PageCache cache(8);
  const CursorIds tokens(4 * kPageTokens, 5);
  const auto first = [&](int32_t n) { return std::span(tokens).first(static_cast<size_t>(n * kPageTokens)); };
  CursorIds pages;
  ASSERT_TRUE(cache.allocate(3, pages));
  PrefixCursor publisher;
  cache.publish(first(1), pages, 0, publisher);
  const auto matched = [&](int32_t most) {
    PrefixCursor cursor;
    CursorIds found;
    cache.match(tokens, most * kPageTokens, found, 0, cursor);
    cache.release(found);
    return cursor;
  };
  const PrefixCursor all = matched(4);
  const PrefixCursor none = matched(0);
  EXPECT_FALSE(cache.may_match_more(tokens, 4 * kPageTokens, 0, all));
  EXPECT_FALSE(cache.may_match_more(tokens, 0, 0, none));
  EXPECT_TRUE(cache.may_match_more(tokens, 4 * kPageTokens, 0, none));
  cache.publish(first(2), pages, 0, publisher);
  EXPECT_TRUE(cache.may_match_more(tokens, 4 * kPageTokens, 0, all));
  EXPECT_FALSE(cache.may_match_more(tokens, 1 * kPageTokens, 0, all));  // no more is asked for
  EXPECT_FALSE(cache.may_match_more(first(1), 4 * kPageTokens, 0, all));
  const PrefixCursor two = matched(4);
  EXPECT_FALSE(cache.may_match_more(tokens, 4 * kPageTokens, 0, two));
  cache.release(pages);
  cache.drop_published();
  EXPECT_TRUE(cache.may_match_more(tokens, 4 * kPageTokens, 0, two));  // other pages may be published there now
}

}  // namespace
}  // namespace ashlar
