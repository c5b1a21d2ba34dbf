// SPDX-License-Identifier: Apache-2.0
#include "cache/window_pages.h"

#include "base/check.h"

namespace ashlar {

WindowPages::WindowPages(int32_t pages, int32_t window_pages)
    : size_(window_pages),
      window_page_of_(static_cast<size_t>(pages), kNone),
      claimed_in_(static_cast<size_t>(pages)),
      claimed_(pages) {
  ASHLAR_CHECK_LE(1, window_pages);
}

WindowPages::Claim WindowPages::claim(int32_t page) {
  int32_t& window_page = window_page_of_[static_cast<size_t>(page)];
  int32_t evicted = kNone;
  if (window_page != kNone) {
    claimed_.remove(page);
  } else if (claimed_.size() < size_) {
    window_page = claimed_.size();
  } else {
    evicted = claimed_.front();
    ASHLAR_CHECK_LT(claimed_in_[static_cast<size_t>(evicted)], step_);
    claimed_.remove(evicted);
    window_page = window_page_of_[static_cast<size_t>(evicted)];
    window_page_of_[static_cast<size_t>(evicted)] = kNone;
  }
  claimed_.push_back(page);
  claimed_in_[static_cast<size_t>(page)] = step_;
  return {window_page, evicted};
}

void WindowPages::check_integrity() const {
  std::vector<bool> taken(static_cast<size_t>(claimed_.size()));
  int64_t step = 0;
  for (int32_t page = claimed_.front(); page != PageList::kNone; page = claimed_.after(page)) {
    const int32_t window_page = window_page_of(page);
    ASHLAR_CHECK_LE(0, window_page);
    ASHLAR_CHECK_LT(window_page, claimed_.size());
    ASHLAR_CHECK(!taken[static_cast<size_t>(window_page)]);
    taken[static_cast<size_t>(window_page)] = true;
    ASHLAR_CHECK_LE(step, claimed_in_[static_cast<size_t>(page)]);
    step = claimed_in_[static_cast<size_t>(page)];
  }
  for (size_t page = 0; page < window_page_of_.size(); ++page) {
    ASHLAR_CHECK_EQ(window_page_of_[page] != kNone, claimed_.contains(static_cast<int32_t>(page)));
  }
  ASHLAR_CHECK_LE(claimed_.size(), size_);
}

}  // namespace ashlar
