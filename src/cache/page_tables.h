// SPDX-License-Identifier: Apache-2.0
#pragma once
// The page tables of running sequences in device memory. They grow by what is new.

#include <cstdint>
#include <memory>
#include <vector>

#include "device/ops.h"

namespace ashlar {

class PageTables {
 public:
  PageTables(Ops& ops, int32_t slots, int32_t max_pages);

  /// A sequence begins in the slot: nothing of its table is there.
  void admit(int32_t slot) { known_[static_cast<size_t>(slot)] = 0; }
  /// The slot's table, whose first n entries are pages[0..n): entries that it had are those already.
  const int32_t* update(int32_t slot, const int32_t* pages, int32_t n);
  /// Writes entry `index`, whatever there was.
  void set(int32_t slot, int32_t index, int32_t page);
  const int32_t* of(int32_t slot) const { return first_ + int64_t{slot} * max_pages_; }
  int32_t max_pages() const { return max_pages_; }

 private:
  Ops& ops_;
  int32_t max_pages_;
  std::unique_ptr<Buffer> memory_;  // [slots, max_pages]
  int32_t* first_;
  std::vector<int32_t> known_;  // per slot: entries that are there
};

}  // namespace ashlar
