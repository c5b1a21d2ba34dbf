// SPDX-License-Identifier: Apache-2.0
#include "cache/layout.h"

#include <gtest/gtest.h>

#include <cstring>

#include "device/device.h"

namespace ashlar {
namespace {

TEST(KvLayout, PlanesKeepTheirOrderAndAddUp) {
  KvLayout layout;
  EXPECT_EQ(layout.bytes_of(1), 0);
  EXPECT_EQ(layout.add_paged("target.0", 1024), 0);
  EXPECT_EQ(layout.add_paged("target.1", 2048), 1);
  EXPECT_EQ(layout.add_paged("drafter.0", 512), 2);
  EXPECT_EQ(layout.bytes_of(1), 3584);
  EXPECT_EQ(layout.bytes_of(10), 35840);
  EXPECT_EQ(layout.planes()[1].name, "target.1");
}

TEST(KvLayout, LimitedPlanesStopGrowing) {
  KvLayout layout;
  layout.add_paged("target", 1000);
  layout.limit_pages(4);
  layout.add_paged("drafter", 10);
  layout.limit_pages(0);
  layout.add_paged("more", 100);
  EXPECT_EQ(layout.bytes_of(3), 3330);
  EXPECT_EQ(layout.bytes_of(4), 4440);
  EXPECT_EQ(layout.bytes_of(50), 55040);
  for (int64_t pages = 0; pages < 60; ++pages) {
    EXPECT_EQ(layout.pages_within(layout.bytes_of(pages)), pages);
    EXPECT_EQ(layout.pages_within(layout.bytes_of(pages + 1) - 1), pages);
  }
}

TEST(KvLayout, SparePagesComeOnTop) {
  KvLayout layout;
  layout.add_spare_pages(2);
  layout.add_paged("target", 1000);
  layout.add_spare_pages(0);
  layout.add_paged("drafter", 10);
  EXPECT_EQ(layout.bytes_of(0), 2000);
  EXPECT_EQ(layout.bytes_of(3), 5030);
  EXPECT_EQ(layout.pages_within(5029), 2);
  EXPECT_EQ(layout.pages_within(1999), 0);
  const std::unique_ptr<Ops> ops = make_device("ref", {});
  const KvMemory memory(*ops, layout, 3);
  EXPECT_EQ(memory.pages(), 3);
  EXPECT_EQ(memory.bytes(), 5030);
}

TEST(KvMemory, LimitedPlanesHaveOnlyTheirWindowPages) {
  const std::unique_ptr<Ops> ops = make_device("ref", {});
  KvLayout layout;
  layout.limit_pages(3);
  layout.add_paged("drafter", 64);
  layout.limit_pages(0);
  layout.add_paged("target", 64);
  for (const int32_t pages : {2, 5}) {
    const KvMemory memory(*ops, layout, pages);
    EXPECT_EQ(memory.pages(), pages);
    EXPECT_EQ(memory.bytes(), layout.bytes_of(pages));
  }
}

// Every state, every row of a log and every snapshot holds bytes of its own, and a restored state is the copy.
TEST(KvMemory, StatesAreDisjointAndComeBackFromSnapshots) {
  const auto ops = make_device("ref", {});
  KvLayout layout;
  layout.keep_log(3);
  layout.add_state("a", 64, 10);    // all begin on cache lines: a row of the log takes 64
  layout.add_state("b", 100, 130);  // 128 and 192
  EXPECT_EQ(layout.state_bytes(2, 4), (64 + 128) * (2 + 4) + (64 + 192) * 2 * 3);
  const KvMemory memory(*ops, layout, 1, 2, 4);
  EXPECT_EQ(memory.bytes(), layout.state_bytes(2, 4));
  uint8_t mark = 0;
  const auto each = [&](const auto& visit) {
    for (int32_t state = 0; state < 2; ++state) {
      const StatePlane plane = memory.state(state);
      const int size = state == 0 ? 64 : 100;
      for (int32_t slot = 0; slot < 2; ++slot) {
        visit(plane.state(slot), size);
        for (int32_t row = 0; row < 3; ++row) visit(plane.log(slot, row), state == 0 ? 10 : 130);
      }
      for (int32_t snapshot = 0; snapshot < 4; ++snapshot) visit(plane.snapshot(snapshot), size);
    }
  };
  each([&](std::byte* at, int size) { std::memset(at, ++mark, static_cast<size_t>(size)); });
  mark = 0;
  each([&](std::byte* at, int size) {
    ++mark;
    for (int i = 0; i < size; ++i) ASSERT_EQ(at[i], std::byte{mark});
  });
  memory.restore(2, 1);
  EXPECT_EQ(*memory.state(0).state(1), *memory.state(0).snapshot(2));
  EXPECT_EQ(memory.state(1).state(1)[99], memory.state(1).snapshot(2)[99]);
  EXPECT_NE(memory.state(1).state(0)[99], memory.state(1).snapshot(2)[99]);
}

TEST(KvMemory, PagesOfAllPlanesAreDisjoint) {
  const std::unique_ptr<Ops> ops = make_device("ref", {});
  KvLayout layout;
  layout.add_paged("a", 64);
  layout.add_paged("b", 192);
  constexpr int32_t kPages = 5;
  const KvMemory memory(*ops, layout, kPages);
  ASSERT_EQ(memory.pages(), kPages);
  for (int32_t plane = 0; plane < 2; ++plane) {
    ASSERT_EQ(memory.plane(plane).page_stride, layout.planes()[plane].bytes_per_page);
    for (int32_t page = 0; page < kPages; ++page) {
      std::memset(memory.plane(plane).base + page * memory.plane(plane).page_stride, 1 + plane * kPages + page,
                  static_cast<size_t>(memory.plane(plane).page_stride));
    }
  }
  for (int32_t plane = 0; plane < 2; ++plane) {
    for (int64_t byte = 0; byte < kPages * memory.plane(plane).page_stride; ++byte) {
      ASSERT_EQ(static_cast<int64_t>(memory.plane(plane).base[byte]),
                1 + plane * kPages + byte / memory.plane(plane).page_stride);
    }
  }
}

}  // namespace
}  // namespace ashlar
