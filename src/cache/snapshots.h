// SPDX-License-Identifier: Apache-2.0
#pragma once
// Copies of the states of recurrent layers as they were after a whole number of pages: what a prefix hit needs besides
// the pages themselves.

#include <cstdint>
#include <vector>

#include "cache/integrity.h"
#include "cache/page_list.h"

namespace ashlar {

/// Bookkeeping of snapshots; the memory they name is KvMemory's. A snapshot is in one of three states:
///   free      without a reference
///   taken     a step on its way fills it, for a caller of take()
///   attached  it belongs to a published page; it may be held by sequences that begin with it
/// Not thread safe: it belongs to the engine's thread. Broken use aborts.
class Snapshots {
 public:
  static constexpr int32_t kNone = -1;

  Snapshots(int32_t pages, int32_t snapshots);

  /// A free snapshot, or in its place the attached one that was least recently held, which leaves its page. kNone if
  /// all are taken or held.
  int32_t take();
  /// Ends a take() without use.
  void give_back(int32_t snapshot) noexcept;
  /// The snapshot that was taken belongs to `page` from now on; given back where the page has one.
  void attach(int32_t snapshot, int32_t page) noexcept;
  /// The page's snapshot, or kNone.
  int32_t of(int32_t page) const { return of_page_[page]; }
  /// An attached snapshot stays with its page until it is released as often as it was held.
  void hold(int32_t snapshot);
  void release(int32_t snapshot) noexcept;
  /// The page is published no longer. No sequence holds its snapshot.
  void forget(int32_t page);

  int32_t total() const { return static_cast<int32_t>(entries_.size()); }
  int32_t free() const { return static_cast<int32_t>(free_.size()); }
  int32_t taken() const { return taken_; }
  int32_t held() const { return held_; }  ///< attached ones that somebody holds

  /// Aborts unless free + taken + attached == total, pages and snapshots name each other, and what may be taken away is
  /// just what no sequence holds. False if it was interrupted.
  bool check_integrity(Interruption& interruption) const;

 private:
  struct Entry {
    int32_t page = kNone;  // attached to it
    int32_t holders = 0;
    bool taken = false;
  };
  Entry& attached(int32_t snapshot);

  std::vector<Entry> entries_;    // by snapshot
  std::vector<int32_t> of_page_;  // by page
  std::vector<int32_t> free_;     // capacity for all
  PageList idle_;                 // attached and not held, least recently held first
  int32_t taken_ = 0;
  int32_t held_ = 0;
};

}  // namespace ashlar
