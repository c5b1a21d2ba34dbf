// SPDX-License-Identifier: Apache-2.0
// Random operations against a model that knows no trie, no hash and no list: a map from token prefixes to pages.
// Invariant: pages-accounted-when-idle.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "cache/page_cache.h"

namespace ashlar {
namespace {

using Ids = std::vector<int32_t>;
using Key = std::pair<uint64_t, Ids>;  // salt, tokens from the start to the page's end

bool extends(const Key& longer, const Key& shorter) {
  return longer.first == shorter.first && longer.second.size() >= shorter.second.size() &&
         std::equal(shorter.second.begin(), shorter.second.end(), longer.second.begin());
}

class NaiveCache {
 public:
  explicit NaiveCache(int32_t pages) : references_(pages, 0) {}

  Ids match(const Key& wanted, int32_t max_tokens) {
    Ids pages;
    for (int32_t n = kPageTokens; n <= std::min<int32_t>(max_tokens, wanted.second.size()); n += kPageTokens) {
      const auto it = published_.find({wanted.first, Ids(wanted.second.begin(), wanted.second.begin() + n)});
      if (it == published_.end()) break;
      pages.push_back(it->second.page);
    }
    take(pages);
    return pages;
  }

  void take(const Ids& pages) {
    for (const int32_t page : pages) ++references_[page];
  }

  void release(const Ids& pages) {
    for (const int32_t page : pages) --references_[page];
  }

  void publish(const Key& sequence, const Ids& pages) {
    for (size_t n = kPageTokens; n <= sequence.second.size(); n += kPageTokens) {
      published_.try_emplace({sequence.first, Ids(sequence.second.begin(), sequence.second.begin() + n)},
                             Entry{pages[n / kPageTokens - 1], now_});
    }
  }

  /// The prefix a full cache must give up next: of those that neither are held nor have a longer prefix, the one that
  /// has not been held, itself or through a longer prefix, for the longest time.
  bool evict() {
    auto oldest = published_.end();
    for (auto it = published_.begin(); it != published_.end(); ++it) {
      if (references_[it->second.page] > 0) continue;
      const bool leaf = after_longer(it) == std::next(it);
      if (leaf && (oldest == published_.end() || it->second.last_held < oldest->second.last_held)) oldest = it;
    }
    if (oldest == published_.end()) return false;
    published_.erase(oldest);
    return true;
  }

  int32_t free() const {
    std::vector<bool> used(references_.size(), false);
    for (size_t page = 0; page < references_.size(); ++page) used[page] = references_[page] > 0;
    for (const auto& [key, entry] : published_) used[entry.page] = true;
    return static_cast<int32_t>(std::ranges::count(used, false));
  }

  int32_t held() const {
    return static_cast<int32_t>(std::ranges::count_if(references_, [](int32_t n) { return n > 0; }));
  }

  /// What is free once everything was given up that may be.
  int32_t available() const {
    std::vector<bool> kept(references_.size(), false);
    for (size_t page = 0; page < references_.size(); ++page) kept[page] = references_[page] > 0;
    for (auto it = published_.begin(); it != published_.end(); ++it) {
      if (is_held(it)) kept[it->second.page] = true;
    }
    return static_cast<int32_t>(std::ranges::count(kept, false));
  }

  bool is_free(int32_t page) const {
    return references_[page] == 0 &&
           std::ranges::none_of(published_, [&](const auto& item) { return item.second.page == page; });
  }

  /// Ends an operation: whatever is held now was held at this time.
  void tick() {
    ++now_;
    for (auto it = published_.begin(); it != published_.end(); ++it) {
      if (is_held(it)) it->second.last_held = now_;
    }
  }

 private:
  struct Entry {
    int32_t page;
    int64_t last_held;
  };
  using Published = std::map<Key, Entry>;

  /// In the order of keys, those that are longer by any tokens come right after a prefix: where they end.
  Published::const_iterator after_longer(Published::const_iterator prefix) const {
    auto it = std::next(prefix);
    while (it != published_.end() && extends(it->first, prefix->first)) ++it;
    return it;
  }

  /// By itself or through a longer prefix.
  bool is_held(Published::const_iterator prefix) const {
    return std::any_of(prefix, after_longer(prefix),
                       [&](const auto& item) { return references_[item.second.page] > 0; });
  }

  Published published_;
  Ids references_;
  int64_t now_ = 0;
};

struct Sequence {
  Key key;
  Ids pages;
  PrefixCursor cursor;
};

class Pair {
 public:
  Pair(uint32_t seed, int32_t pages, PrefixIndex::Hash hash) : random_(seed), cache_(pages, hash), naive_(pages) {}

  void step() {
    switch (below(10)) {
      case 0:
      case 1:
      case 2:
        begin();
        break;
      case 3:
      case 4:
      case 5:
        grow();
        break;
      case 6:
      case 7:
        publish();
        break;
      case 8:
        end();
        break;
      default:
        below(20) == 0 ? drop() : end();
        break;
    }
    naive_.tick();
    cache_.check_integrity();
    ASSERT_EQ(cache_.free_pages(), naive_.free());
    ASSERT_EQ(cache_.held_pages(), naive_.held());
    ASSERT_EQ(cache_.available(), naive_.available());
  }

  void finish() {
    while (!live_.empty()) end();
    cache_.check_integrity();
    ASSERT_EQ(cache_.held_pages(), 0);
    ASSERT_EQ(cache_.available(), cache_.total());
    drop();
    ASSERT_EQ(cache_.free_pages(), cache_.total());
  }

  const PageCache& cache() const { return cache_; }

 private:
  int32_t below(int32_t n) { return static_cast<int32_t>(random_() % static_cast<uint32_t>(n)); }

  // Few distinct pages, so that prefixes meet, part and meet again.
  void add_tokens(Ids& tokens, int32_t count) {
    for (int32_t i = 0; i < count; ++i) {
      if (tokens.size() % kPageTokens == 0) letter_ = below(3);
      tokens.push_back(letter_);
    }
  }

  bool allocate(Sequence& sequence, int32_t count) {
    const bool fits = count <= naive_.available();
    Ids fresh;
    EXPECT_EQ(cache_.allocate(count, fresh), fits);
    if (!fits) return false;
    while (naive_.free() < count) EXPECT_TRUE(naive_.evict());
    EXPECT_EQ(fresh.size(), static_cast<size_t>(count));
    for (const int32_t page : fresh) {
      EXPECT_TRUE(naive_.is_free(page)) << "page " << page
                                        << " was given out although it is in use or was evicted early";
      naive_.take({page});
      sequence.pages.push_back(page);
    }
    return true;
  }

  void begin() {
    if (live_.size() >= 4) end();
    Sequence sequence;
    sequence.key.first = below(8) == 0 ? 5 : 0;
    letter_ = below(3);
    add_tokens(sequence.key.second, below(5 * kPageTokens));
    const Ids& tokens = sequence.key.second;
    const int32_t limit = below(4) == 0 ? below(80) : static_cast<int32_t>(tokens.size());
    if (below(5) != 0) {  // otherwise recomputed without a look: duplicates
      const int32_t covered = cache_.match(tokens, limit, sequence.pages, sequence.key.first, sequence.cursor);
      ASSERT_EQ(sequence.pages, naive_.match(sequence.key, limit));
      ASSERT_EQ(covered, static_cast<int32_t>(sequence.pages.size()) * kPageTokens);
    }
    naive_.tick();
    const int32_t pages = (static_cast<int32_t>(tokens.size()) + kPageTokens - 1) / kPageTokens;
    const bool fits = allocate(sequence, pages - static_cast<int32_t>(sequence.pages.size()));
    live_.push_back(sequence);
    if (!fits) end(live_.size() - 1);
  }

  void grow() {
    if (live_.empty()) return;
    Sequence& sequence = live_[below(static_cast<int32_t>(live_.size()))];
    const auto size = static_cast<int32_t>(sequence.key.second.size());
    const int32_t count = below(2 * kPageTokens);
    if (size + count > 8 * kPageTokens) return;
    const int32_t pages = (size + count + kPageTokens - 1) / kPageTokens;
    if (!allocate(sequence, pages - static_cast<int32_t>(sequence.pages.size()))) return;
    add_tokens(sequence.key.second, count);
  }

  void publish() {
    if (live_.empty()) return;
    Sequence& sequence = live_[below(static_cast<int32_t>(live_.size()))];
    if (below(4) == 0) sequence.cursor = {};
    cache_.publish(sequence.key.second, sequence.pages, sequence.key.first, sequence.cursor);
    naive_.publish(sequence.key, sequence.pages);
  }

  void end() {
    if (!live_.empty()) end(static_cast<size_t>(below(static_cast<int32_t>(live_.size()))));
  }

  void end(size_t index) {
    naive_.tick();
    cache_.release(live_[index].pages);
    naive_.release(live_[index].pages);
    live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(index));
  }

  void drop() {
    cache_.drop_published();
    while (naive_.evict()) {
    }
  }

  std::mt19937 random_;
  PageCache cache_;
  NaiveCache naive_;
  std::vector<Sequence> live_;
  int32_t letter_ = 0;
};

/// Runs `operations` and returns what the cache did, so that a test can see that it was kept busy.
PageCache::Counters run(uint32_t seed, int32_t pages, int32_t operations, PrefixIndex::Hash hash) {
  SCOPED_TRACE("seed " + std::to_string(seed) + ", " + std::to_string(pages) + " pages");
  Pair pair(seed, pages, hash);
  for (int32_t i = 0; i < operations; ++i) {
    pair.step();
    if (testing::Test::HasFailure()) {
      ADD_FAILURE() << "operation " << i;
      return {};
    }
  }
  pair.finish();
  return pair.cache().counters();
}

TEST(PageCacheRandom, AgreesWithTheNaiveCache) {
  PageCache::Counters sum;
  for (uint32_t seed = 0; seed < 40 && !HasFailure(); ++seed) {
    const PageCache::Counters counters = run(seed, 6 + static_cast<int32_t>(seed), 2000, PrefixIndex::mix);
    sum.evictions += counters.evictions;
    sum.matched_tokens += counters.matched_tokens;
    sum.published += counters.published;
  }
  EXPECT_GT(sum.evictions, 10000u);
  EXPECT_GT(sum.matched_tokens, 10000u * kPageTokens);
  EXPECT_GT(sum.published, 10000u);
}

TEST(PageCacheRandom, AgreesUnderAHashThatAlwaysCollides) {
  for (uint32_t seed = 100; seed < 106; ++seed) {
    run(seed, 24, 1000, [](int32_t, uint64_t, PageTokens) -> uint64_t { return 0; });
  }
}

TEST(PageCacheRandom, AgreesUnderAHashOfOneToken) {
  for (uint32_t seed = 200; seed < 206; ++seed) {
    run(seed, 24, 1000, [](int32_t, uint64_t, PageTokens tokens) { return static_cast<uint64_t>(tokens[3]); });
  }
}

}  // namespace
}  // namespace ashlar
