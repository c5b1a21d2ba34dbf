// SPDX-License-Identifier: Apache-2.0
#include "cache/page_cache.h"

#include <algorithm>

#include "base/check.h"

namespace ashlar {

PageCache::PageCache(int32_t pages, PrefixIndex::Hash hash, int32_t block, int32_t snapshots)
    : block_(block),
      pages_(static_cast<size_t>(pages)),
      index_(pages, hash, kPageTokens + block - 1),
      snapshots_(pages, snapshots),
      idle_(pages) {
  free_.reserve(pages_.size());
  for (int32_t page = pages - 1; page >= 0; --page) free_.push_back(page);  // the lowest id goes first
}

// Where the block that page `index` ends in has its end.
int32_t PageCache::key_end(int32_t index) const { return ((index + 1) * kPageTokens + block_ - 1) / block_ * block_; }

PageTokens PageCache::key_of(std::span<const int32_t> tokens, int32_t index) const {
  const int32_t begin = index * kPageTokens;
  return tokens.subspan(begin, key_end(index) - begin);
}

bool PageCache::is_asked(std::span<const int32_t> tokens, int32_t max_tokens, int32_t index) const {
  return (index + 1) * kPageTokens <= max_tokens && key_end(index) <= static_cast<int32_t>(tokens.size());
}

// A pin travels up until it meets a page that has one already. Sequences take pages from the root on and drop them
// together, so this is constant time a page on average.
void PageCache::pin(int32_t page) {
  while (page != PrefixIndex::kNone && pages_[page].pins++ == 0) {
    if (idle_.contains(page)) idle_.remove(page);  // not so while it is being published
    page = index_.parent(page);
  }
}

void PageCache::unpin(int32_t page) {
  while (page != PrefixIndex::kNone && --pages_[page].pins == 0) {
    idle_.push_back(page);
    page = index_.parent(page);
  }
}

void PageCache::hold(int32_t page) {
  if (pages_[page].references++ > 0) return;
  ++held_;
  if (index_.contains(page)) pin(page);
}

int32_t PageCache::find(std::span<const int32_t> tokens, int32_t asked, std::vector<int32_t>& pages, uint64_t salt,
                        PrefixCursor& cursor) const {
  const size_t before = pages.size();
  int32_t parent = PrefixIndex::kNone;
  int32_t found = 0;  // pages
  int32_t whole = 0;  // of them, up to the last that ends with a block
  for (; is_asked(tokens, asked, found); ++found) {
    const int32_t page = index_.find(parent, salt, key_of(tokens, found));
    if (page == PrefixIndex::kNone) break;
    pages.push_back(page);
    parent = page;
    if ((found + 1) * kPageTokens % block_ == 0) whole = found + 1;
  }
  cursor = {found, parent, index_.time()};
  pages.resize(before + static_cast<size_t>(whole));
  return whole;
}

void PageCache::take_found(const std::vector<int32_t>& pages, size_t first, int32_t asked, int32_t covered) {
  for (size_t i = first; i < pages.size(); ++i) hold(pages[i]);
  ++counters_.matches;
  counters_.matched_tokens += static_cast<uint64_t>(covered);
  counters_.missed_tokens += static_cast<uint64_t>(asked - covered);
}

int32_t PageCache::match(std::span<const int32_t> tokens, int32_t max_tokens, std::vector<int32_t>& pages,
                         uint64_t salt, PrefixCursor& cursor) {
  const int32_t asked = std::clamp(max_tokens, 0, static_cast<int32_t>(tokens.size()));
  const size_t first = pages.size();
  const int32_t covered = find(tokens, asked, pages, salt, cursor) * kPageTokens;
  take_found(pages, first, asked, covered);
  return covered;
}

PageCache::StateMatch PageCache::match_state(std::span<const int32_t> tokens, int32_t max_tokens,
                                             std::vector<int32_t>& pages, uint64_t salt, PrefixCursor& cursor) {
  const int32_t asked = std::clamp(max_tokens, 0, static_cast<int32_t>(tokens.size()));
  const size_t first = pages.size();
  StateMatch match;
  match.published = find(tokens, asked, pages, salt, cursor) * kPageTokens;
  while (pages.size() > first && snapshots_.of(pages.back()) == Snapshots::kNone) pages.pop_back();
  match.tokens = static_cast<int32_t>(pages.size() - first) * kPageTokens;
  take_found(pages, first, asked, match.tokens);
  if (match.tokens > 0) {
    match.snapshot = snapshots_.of(pages.back());
    snapshots_.hold(match.snapshot);
  }
  return match;
}

void PageCache::attach_snapshot(int32_t snapshot, const PrefixCursor& cursor, int32_t n_pages) noexcept {
  if (n_pages < 1 || cursor.pages < n_pages || !index_.has(cursor)) return snapshots_.give_back(snapshot);
  int32_t page = cursor.node;
  for (int32_t i = cursor.pages; i > n_pages; --i) page = index_.parent(page);
  snapshots_.attach(snapshot, page);
}

bool PageCache::may_match_more(std::span<const int32_t> tokens, int32_t max_tokens, uint64_t salt,
                               const PrefixCursor& cursor) const {
  if (!index_.has(cursor)) return true;  // somebody may have published other pages in place of those evicted
  return is_asked(tokens, max_tokens, cursor.pages) &&
         index_.find(cursor.node, salt, key_of(tokens, cursor.pages)) != PrefixIndex::kNone;
}

void PageCache::evict_oldest() {
  const int32_t page = idle_.front();
  idle_.remove(page);
  snapshots_.forget(page);
  index_.erase(page);
  free_.push_back(page);
}

bool PageCache::allocate(int32_t count, std::vector<int32_t>& pages) {
  ASHLAR_CHECK_GE(count, 0);
  if (count > available()) return false;
  for (int32_t i = 0; i < count; ++i) {
    if (free_.empty()) {
      evict_oldest();
      ++counters_.evictions;
    }
    const int32_t page = free_.back();
    free_.pop_back();
    hold(page);
    pages.push_back(page);
  }
  return true;
}

void PageCache::release(std::span<const int32_t> pages) {
  for (const int32_t page : pages) {
    ASHLAR_CHECK(page >= 0 && page < total());
    ASHLAR_CHECK_LT(0, pages_[page].references);
    if (--pages_[page].references > 0) continue;
    --held_;
    if (index_.contains(page)) {
      unpin(page);
    } else {
      free_.push_back(page);
    }
  }
}

void PageCache::publish(std::span<const int32_t> tokens, std::span<const int32_t> pages, uint64_t salt,
                        PrefixCursor& cursor) {
  auto full = static_cast<int32_t>(tokens.size() / kPageTokens);
  while (full > 0 && key_end(full - 1) > static_cast<int32_t>(tokens.size())) --full;
  ASHLAR_CHECK_LE(static_cast<size_t>(full), pages.size());
  if (!index_.has(cursor)) cursor = {};
  for (int32_t i = full; i > cursor.pages; --i) {
    if (!index_.contains(pages[i - 1])) continue;
    cursor = {i, pages[i - 1], index_.time()};
    break;
  }
  if (cursor.pages > 0) {
    ASHLAR_CHECK_EQ(index_.salt(cursor.node), salt);
    const int32_t last = cursor.pages - 1;
    ASHLAR_CHECK(last >= full || std::ranges::equal(index_.tokens(cursor.node), key_of(tokens, last)));
  }
  for (; cursor.pages < full; ++cursor.pages) {
    const PageTokens key = key_of(tokens, cursor.pages);
    const int32_t existing = index_.find(cursor.node, salt, key);
    ++counters_.lookups;
    if (existing != PrefixIndex::kNone) {
      cursor.node = existing;
      continue;
    }
    const int32_t page = pages[cursor.pages];
    ASHLAR_CHECK_LT(0, pages_[page].references);
    index_.insert(page, cursor.node, salt, key);
    pin(page);
    ++counters_.published;
    cursor.node = page;
  }
  cursor.time = index_.time();
}

void PageCache::drop_published() {
  while (idle_.size() > 0) evict_oldest();
}

bool PageCache::check_pins(Interruption& interruption) const {
  std::vector<int32_t> pins(pages_.size(), 0);
  for (int32_t page = 0; page < total(); ++page) {
    if (interruption.requested()) return false;
    if (!index_.contains(page)) continue;
    if (pages_[page].references > 0) ++pins[page];
    const int32_t parent = index_.parent(page);
    if (parent != PrefixIndex::kNone && pages_[page].pins > 0) ++pins[parent];
  }
  for (int32_t page = 0; page < total(); ++page) {
    if (interruption.requested()) return false;
    ASHLAR_CHECK_EQ(pages_[page].pins, pins[page]);
    ASHLAR_CHECK_EQ(idle_.contains(page), index_.contains(page) && pins[page] == 0);
  }
  return true;
}

bool PageCache::check_states(Interruption& interruption) const {
  std::vector<bool> is_free(pages_.size(), false);
  for (const int32_t page : free_) {
    ASHLAR_CHECK(!is_free[page]);
    is_free[page] = true;
  }
  int32_t held = 0;
  int32_t cached = 0;
  for (int32_t page = 0; page < total(); ++page) {
    if (interruption.requested()) return false;
    ASHLAR_CHECK_GE(pages_[page].references, 0);
    const bool is_held = pages_[page].references > 0;
    const bool is_cached = !is_held && index_.contains(page);
    ASHLAR_CHECK_EQ(is_free[page] + is_held + is_cached, 1);
    ASHLAR_CHECK(!is_free[page] || !index_.contains(page));
    ASHLAR_CHECK(snapshots_.of(page) == Snapshots::kNone || index_.contains(page));
    held += is_held ? 1 : 0;
    cached += is_cached ? 1 : 0;
  }
  ASHLAR_CHECK_EQ(held, held_);
  ASHLAR_CHECK_EQ(free_pages() + held + cached, total());
  ASHLAR_CHECK_EQ(cached, cached_pages());
  return true;
}

bool PageCache::check_idle(Interruption& interruption) const {
  std::vector<bool> listed(pages_.size(), false);
  int32_t length = 0;
  for (int32_t page = idle_.front(), previous = PageList::kNone; page != PageList::kNone; page = idle_.after(page)) {
    if (interruption.requested()) return false;
    ASHLAR_CHECK(!listed[page]);
    ASHLAR_CHECK_EQ(idle_.before(page), previous);
    listed[page] = true;
    previous = page;
    const int32_t parent = index_.parent(page);
    ASHLAR_CHECK(parent == PrefixIndex::kNone || !listed[parent]);
    ++length;
  }
  ASHLAR_CHECK_EQ(length, idle_.size());
  return true;
}

bool PageCache::check_integrity(Interruption& interruption) const {
  return index_.check_integrity(interruption) && check_pins(interruption) && check_states(interruption) &&
         check_idle(interruption) && snapshots_.check_integrity(interruption);
}

}  // namespace ashlar
