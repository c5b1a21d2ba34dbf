// SPDX-License-Identifier: Apache-2.0
#pragma once
// A doubly linked list of page ids, oldest first, with O(1) removal from the middle and no allocation after
// construction.

#include <cstdint>
#include <vector>

#include "base/check.h"

namespace ashlar {

class PageList {
 public:
  static constexpr int32_t kNone = -1;

  explicit PageList(int32_t pages) : links_(static_cast<size_t>(pages)) {}

  int32_t size() const { return size_; }
  bool contains(int32_t page) const { return links_[page].listed; }
  int32_t front() const { return front_; }                         ///< kNone if empty
  int32_t after(int32_t page) const { return links_[page].next; }  ///< kNone at the end
  int32_t before(int32_t page) const { return links_[page].previous; }

  void push_back(int32_t page) {
    ASHLAR_CHECK(!links_[page].listed);
    links_[page] = {back_, kNone, true};
    (back_ == kNone ? front_ : links_[back_].next) = page;
    back_ = page;
    ++size_;
  }

  void remove(int32_t page) {
    Link& link = links_[page];
    ASHLAR_CHECK(link.listed);
    (link.previous == kNone ? front_ : links_[link.previous].next) = link.next;
    (link.next == kNone ? back_ : links_[link.next].previous) = link.previous;
    link = {};
    --size_;
  }

 private:
  struct Link {
    int32_t previous = kNone;
    int32_t next = kNone;
    bool listed = false;
  };
  std::vector<Link> links_;
  int32_t front_ = kNone;
  int32_t back_ = kNone;
  int32_t size_ = 0;
};

}  // namespace ashlar
