// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which page of a sequence has which window page, in planes that have fewer window pages than there are pages.

#include <cstdint>
#include <vector>

#include "cache/page_list.h"

namespace ashlar {

/// A page takes a window page when it is claimed and keeps it until another page needs it: the page whose last claim is
/// the longest ago gives way, but never one that was claimed in the same step. O(1), and nothing is allocated after
/// construction. Not thread safe.
class WindowPages {
 public:
  static constexpr int32_t kNone = -1;

  WindowPages(int32_t pages, int32_t window_pages);

  /// Claims before this may give way from now on.
  void begin_step() { ++step_; }

  struct Claim {
    int32_t window_page;
    int32_t evicted;  ///< the page that has lost this window page, or kNone
  };
  /// Aborts if every window page was claimed for another page in this step.
  Claim claim(int32_t page);

  /// kNone if it is in none.
  int32_t window_page_of(int32_t page) const { return window_page_of_[static_cast<size_t>(page)]; }
  int32_t size() const { return size_; }

  /// Aborts unless the pages of the list, and no others, have window pages, one each, below size, and stand in order of
  /// step.
  void check_integrity() const;

 private:
  const int32_t size_;
  std::vector<int32_t> window_page_of_;  // per page
  std::vector<int64_t> claimed_in_;      // per page: step of its last claim
  PageList claimed_;  // pages that have a window page, oldest claim first; their window pages are 0 .. size - 1
  int64_t step_ = 0;
};

}  // namespace ashlar
