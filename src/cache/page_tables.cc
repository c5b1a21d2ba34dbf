// SPDX-License-Identifier: Apache-2.0
#include "cache/page_tables.h"

#include "base/check.h"

namespace ashlar {

PageTables::PageTables(Ops& ops, int32_t slots, int32_t max_pages)
    : ops_(ops),
      max_pages_(max_pages),
      memory_(ops.allocate(sizeof(int32_t) * static_cast<size_t>(slots) * static_cast<size_t>(max_pages))),
      first_(reinterpret_cast<int32_t*>(memory_->data())),
      known_(static_cast<size_t>(slots)) {}

const int32_t* PageTables::update(int32_t slot, const int32_t* pages, int32_t n) {
  ASHLAR_CHECK_LE(n, max_pages_);
  int32_t& known = known_[static_cast<size_t>(slot)];
  const int64_t row = int64_t{slot} * max_pages_;
  if (n > known) {
    ops_.upload(pages + known, reinterpret_cast<std::byte*>(first_ + row + known),
                sizeof(int32_t) * static_cast<size_t>(n - known));
    known = n;
  }
  return first_ + row;
}

void PageTables::set(int32_t slot, int32_t index, int32_t page) {
  ASHLAR_CHECK_LT(index, max_pages_);
  ops_.upload(&page, reinterpret_cast<std::byte*>(first_ + int64_t{slot} * max_pages_ + index), sizeof(page));
}

}  // namespace ashlar
