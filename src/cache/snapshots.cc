// SPDX-License-Identifier: Apache-2.0
#include "cache/snapshots.h"

#include "base/check.h"

namespace ashlar {

Snapshots::Snapshots(int32_t pages, int32_t snapshots)
    : entries_(static_cast<size_t>(snapshots)), of_page_(static_cast<size_t>(pages), kNone), idle_(snapshots) {
  free_.reserve(entries_.size());
  for (int32_t snapshot = snapshots - 1; snapshot >= 0; --snapshot) free_.push_back(snapshot);
}

int32_t Snapshots::take() {
  if (free_.empty() && idle_.size() > 0) forget(entries_[idle_.front()].page);
  if (free_.empty()) return kNone;
  const int32_t snapshot = free_.back();
  free_.pop_back();
  entries_[snapshot].taken = true;
  ++taken_;
  return snapshot;
}

void Snapshots::give_back(int32_t snapshot) noexcept {
  Entry& entry = entries_[snapshot];
  ASHLAR_CHECK(entry.taken);
  entry.taken = false;
  --taken_;
  free_.push_back(snapshot);
}

void Snapshots::attach(int32_t snapshot, int32_t page) noexcept {
  if (of_page_[page] != kNone) return give_back(snapshot);
  Entry& entry = entries_[snapshot];
  ASHLAR_CHECK(entry.taken);
  entry = {page, 0, false};
  --taken_;
  of_page_[page] = snapshot;
  idle_.push_back(snapshot);
}

Snapshots::Entry& Snapshots::attached(int32_t snapshot) {
  Entry& entry = entries_[snapshot];
  ASHLAR_CHECK_NE(entry.page, kNone);
  return entry;
}

void Snapshots::hold(int32_t snapshot) {
  if (attached(snapshot).holders++ > 0) return;
  idle_.remove(snapshot);
  ++held_;
}

void Snapshots::release(int32_t snapshot) noexcept {
  Entry& entry = attached(snapshot);
  ASHLAR_CHECK_LT(0, entry.holders);
  if (--entry.holders > 0) return;
  idle_.push_back(snapshot);
  --held_;
}

void Snapshots::forget(int32_t page) {
  const int32_t snapshot = of_page_[page];
  if (snapshot == kNone) return;
  ASHLAR_CHECK_EQ(attached(snapshot).holders, 0);
  idle_.remove(snapshot);
  of_page_[page] = kNone;
  entries_[snapshot] = {};
  free_.push_back(snapshot);
}

bool Snapshots::check_integrity(Interruption& interruption) const {
  int32_t taken = 0;
  int32_t attached = 0;
  int32_t held = 0;
  for (int32_t snapshot = 0; snapshot < total(); ++snapshot) {
    if (interruption.requested()) return false;
    const Entry& entry = entries_[snapshot];
    const bool is_attached = entry.page != kNone;
    ASHLAR_CHECK(!(entry.taken && is_attached));
    if (is_attached) ASHLAR_CHECK_EQ(of_page_[entry.page], snapshot);
    ASHLAR_CHECK_EQ(idle_.contains(snapshot), is_attached && entry.holders == 0);
    ASHLAR_CHECK_GE(entry.holders, 0);
    taken += entry.taken ? 1 : 0;
    attached += is_attached ? 1 : 0;
    held += entry.holders > 0 ? 1 : 0;
  }
  for (const int32_t snapshot : free_) ASHLAR_CHECK(!entries_[snapshot].taken && entries_[snapshot].page == kNone);
  for (const int32_t snapshot : of_page_) attached -= snapshot == kNone ? 0 : 1;
  ASHLAR_CHECK_EQ(attached, 0);
  ASHLAR_CHECK_EQ(taken, taken_);
  ASHLAR_CHECK_EQ(held, held_);
  ASHLAR_CHECK_EQ(free() + taken_ + held_ + idle_.size(), total());
  return true;
}

}  // namespace ashlar
