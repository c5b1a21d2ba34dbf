#include "kv/page_cache.h"

#include <algorithm>

#include "base/check.h"

namespace ashlar {

PageCache::PageCache(int32_t pages, PrefixIndex::Hash hash, int32_t block)
    : block_(block), pages_(static_cast<size_t>(pages)), index_(pages, hash, kPageTokens + block - 1), idle_(pages) {
  free_.reserve(pages_.size());
  for (int32_t page = pages - 1; page >= 0; --page) free_.push_back(page);  // the lowest id goes first
}

// Where the block that page `index` ends in has its end.
int32_t PageCache::key_end(int32_t index) const { return ((index + 1) * kPageTokens + block_ - 1) / block_ * block_; }

PageTokens PageCache::key_of(std::span<const int32_t> tokens, int32_t index) const {
  const int32_t begin = index * kPageTokens;
  return tokens.subspan(begin, key_end(index) - begin);
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

int32_t PageCache::match(std::span<const int32_t> tokens, int32_t max_tokens, std::vector<int32_t>& pages,
                         uint64_t salt) {
  const auto asked =
      static_cast<int32_t>(std::clamp<size_t>(static_cast<size_t>(std::max(max_tokens, 0)), 0, tokens.size()));
  const size_t before = pages.size();
  int32_t parent = PrefixIndex::kNone;
  int32_t found = 0;  // pages
  int32_t whole = 0;  // of them, up to the last that ends with a block
  for (; (found + 1) * kPageTokens <= asked && key_end(found) <= static_cast<int32_t>(tokens.size()); ++found) {
    const int32_t page = index_.find(parent, salt, key_of(tokens, found));
    if (page == PrefixIndex::kNone) break;
    pages.push_back(page);
    parent = page;
    if ((found + 1) * kPageTokens % block_ == 0) whole = found + 1;
  }
  pages.resize(before + static_cast<size_t>(whole));
  for (size_t i = before; i < pages.size(); ++i) hold(pages[i]);
  const int32_t covered = whole * kPageTokens;
  counters_.matched_tokens += static_cast<uint64_t>(covered);
  counters_.missed_tokens += static_cast<uint64_t>(asked - covered);
  return covered;
}

void PageCache::evict_oldest() {
  const int32_t page = idle_.front();
  idle_.remove(page);
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

// The last page before `page` that is a node itself, or kNone: from there on the trie must be walked by tokens.
int32_t PageCache::published_before(std::span<const int32_t> pages, int32_t page) const {
  do --page;
  while (page >= 0 && !index_.contains(pages[page]));
  return page;
}

void PageCache::publish(std::span<const int32_t> tokens, std::span<const int32_t> pages, uint64_t salt,
                        int32_t from_page) {
  auto full = static_cast<int32_t>(tokens.size() / kPageTokens);
  while (full > 0 && key_end(full - 1) > static_cast<int32_t>(tokens.size())) --full;
  ASHLAR_CHECK_LE(static_cast<size_t>(full), pages.size());
  const int32_t known = published_before(pages, std::clamp(from_page, 0, full));
  int32_t parent = known < 0 ? PrefixIndex::kNone : pages[known];
  if (known >= 0) {
    ASHLAR_CHECK_EQ(index_.salt(parent), salt);
    ASHLAR_CHECK(std::ranges::equal(index_.tokens(parent), key_of(tokens, known)));
  }
  for (int32_t i = known + 1; i < full; ++i) {
    const int32_t existing = index_.find(parent, salt, key_of(tokens, i));
    if (existing != PrefixIndex::kNone) {
      parent = existing;
      continue;
    }
    const int32_t page = pages[i];
    ASHLAR_CHECK_LT(0, pages_[page].references);
    index_.insert(page, parent, salt, key_of(tokens, i));
    pin(page);
    ++counters_.published;
    parent = page;
  }
}

void PageCache::drop_published() {
  while (idle_.size() > 0) evict_oldest();
}

void PageCache::check_pins() const {
  std::vector<int32_t> pins(pages_.size(), 0);
  for (int32_t page = 0; page < total(); ++page) {
    if (!index_.contains(page)) continue;
    if (pages_[page].references > 0) ++pins[page];
    const int32_t parent = index_.parent(page);
    if (parent != PrefixIndex::kNone && pages_[page].pins > 0) ++pins[parent];
  }
  for (int32_t page = 0; page < total(); ++page) {
    ASHLAR_CHECK_EQ(pages_[page].pins, pins[page]);
    ASHLAR_CHECK_EQ(idle_.contains(page), index_.contains(page) && pins[page] == 0);
  }
}

void PageCache::check_integrity() const {
  index_.check_integrity();
  check_pins();
  std::vector<bool> is_free(pages_.size(), false);
  for (const int32_t page : free_) {
    ASHLAR_CHECK(!is_free[page]);
    is_free[page] = true;
  }
  int32_t held = 0;
  int32_t cached = 0;
  for (int32_t page = 0; page < total(); ++page) {
    ASHLAR_CHECK_GE(pages_[page].references, 0);
    const bool is_held = pages_[page].references > 0;
    const bool is_cached = !is_held && index_.contains(page);
    ASHLAR_CHECK_EQ(is_free[page] + is_held + is_cached, 1);
    ASHLAR_CHECK(!is_free[page] || !index_.contains(page));
    held += is_held ? 1 : 0;
    cached += is_cached ? 1 : 0;
  }
  ASHLAR_CHECK_EQ(held, held_);
  ASHLAR_CHECK_EQ(free_pages() + held + cached, total());
  ASHLAR_CHECK_EQ(cached, cached_pages());
  std::vector<bool> listed(pages_.size(), false);
  int32_t length = 0;
  for (int32_t page = idle_.front(), previous = PageList::kNone; page != PageList::kNone; page = idle_.after(page)) {
    ASHLAR_CHECK(!listed[page]);
    ASHLAR_CHECK_EQ(idle_.before(page), previous);
    listed[page] = true;
    previous = page;
    const int32_t parent = index_.parent(page);
    ASHLAR_CHECK(parent == PrefixIndex::kNone || !listed[parent]);
    ++length;
  }
  ASHLAR_CHECK_EQ(length, idle_.size());
}

}  // namespace ashlar
