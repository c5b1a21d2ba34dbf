// SPDX-License-Identifier: Apache-2.0
#pragma once
// Pages whose tokens are named by a letter, in and out of a page cache.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cache/page_cache.h"

namespace ashlar {

using Ids = std::vector<int32_t>;

/// One full page per letter; a page's tokens say which letter it is.
inline Ids text(const std::string& letters) {
  Ids tokens;
  for (const char letter : letters) {
    for (int32_t i = 0; i < kPageTokens; ++i) tokens.push_back(letter * 100 + i);
  }
  return tokens;
}

inline int32_t tokens_in(int32_t pages) { return pages * kPageTokens; }

inline Ids allocate(PageCache& cache, int32_t count) {
  Ids pages;
  EXPECT_TRUE(cache.allocate(count, pages));
  return pages;
}

/// Allocates, publishes and keeps holding the pages of `letters`.
inline Ids hold(PageCache& cache, const std::string& letters, uint64_t salt = 0) {
  const Ids pages = allocate(cache, static_cast<int32_t>(letters.size()));
  cache.publish(text(letters), pages, salt);
  cache.check_integrity();
  return pages;
}

/// The same, released.
inline Ids store(PageCache& cache, const std::string& letters, uint64_t salt = 0) {
  const Ids pages = hold(cache, letters, salt);
  cache.release(pages);
  cache.check_integrity();
  return pages;
}

/// Pages that match finds, without keeping them.
inline Ids probe(PageCache& cache, const std::string& letters, uint64_t salt = 0) {
  Ids pages;
  const int32_t covered = cache.match(text(letters), 1 << 20, pages, salt);
  EXPECT_EQ(covered, tokens_in(static_cast<int32_t>(pages.size())));
  cache.release(pages);
  cache.check_integrity();
  return pages;
}

inline void expect_counts(const PageCache& cache, int32_t free, int32_t held, int32_t cached) {
  EXPECT_EQ(cache.free_pages(), free);
  EXPECT_EQ(cache.held_pages(), held);
  EXPECT_EQ(cache.cached_pages(), cached);
  EXPECT_EQ(cache.total(), free + held + cached);
  cache.check_integrity();
}

}  // namespace ashlar
