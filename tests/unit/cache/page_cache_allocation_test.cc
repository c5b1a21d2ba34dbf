// SPDX-License-Identifier: Apache-2.0
// The step path must not allocate: allocate, match, release and publish run with operator new counted.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "cache/page_cache.h"

namespace {
std::atomic<int64_t> allocations{0};
}  // namespace

void* operator new(size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
// Inlined where operator new is not, free() would look mismatched to the compiler.
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace ashlar {
namespace {

TEST(PageCache, AllocatesNoMemoryAfterConstruction) {
  constexpr int32_t kPages = 64;
  PageCache cache(kPages);
  std::vector<int32_t> pages;
  pages.reserve(kPages);
  std::vector<int32_t> tokens(20 * kPageTokens);
  const int64_t before = allocations.load();
  for (int32_t round = 0; round < 200; ++round) {
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = (round % 7) * 1000 + static_cast<int32_t>(i);
    pages.clear();
    PrefixCursor cursor;
    const int32_t covered = cache.match(tokens, static_cast<int32_t>(tokens.size()), pages, 0, cursor);
    ASSERT_TRUE(cache.allocate(20 - covered / kPageTokens, pages));
    cache.publish(tokens, pages, 0, cursor);
    cache.release(pages);
  }
  const int64_t after = allocations.load();
  EXPECT_EQ(after - before, 0);
  EXPECT_GT(cache.counters().evictions, 0u);
  cache.check_integrity();
  EXPECT_GT(allocations.load(), after);  // the counter counts
}

}  // namespace
}  // namespace ashlar
