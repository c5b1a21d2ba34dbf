// SPDX-License-Identifier: Apache-2.0
#pragma once
// What model layers keep of sequences. What grows with a sequence takes a number of bytes a page: one page id indexes
// all planes, except those that have fewer pages. What does not, such as the state of a recurrent layer, takes a number
// of bytes a slot.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/ops.h"

namespace ashlar {

/// Collects planes and states before memory is made.
class KvLayout {
 public:
  /// Registers a plane of `bytes_per_page`; returns its index.
  int32_t add_paged(std::string name, int64_t bytes_per_page);
  /// Registers a state of `bytes` for every sequence, with a log of what its newest rows did to it, `log_bytes` a row
  /// (StateSpan); returns its index.
  int32_t add_state(std::string name, int64_t bytes, int64_t log_bytes);

  /// Planes that are added from now on have at most `most` pages, called window pages, and the caller says which page
  /// is in which window page (cache/window_pages.h). 0: a page for every page id again.
  void limit_pages(int64_t most) { max_pages_ = most; }

  /// Planes that are added from now on have `n` pages more, whose ids follow the others: room for what lasts a
  /// pass.
  void add_spare_pages(int64_t n) { spare_pages_ = n; }

  /// States that are added from now on have logs of `n` rows: as many as a forward may leave to choose from.
  void keep_log(int32_t n) { log_rows_ = n; }

  struct Plane {
    std::string name;
    int64_t bytes_per_page;
    int64_t max_pages;    ///< 0: no limit
    int64_t spare_pages;  ///< beyond that
    /// Where there are `pages` page ids.
    int64_t pages_of(int64_t pages) const { return (max_pages > 0 ? std::min(pages, max_pages) : pages) + spare_pages; }
  };
  struct State {
    std::string name;
    int64_t bytes;
    int64_t log_bytes;  ///< of a row
    int32_t log_rows;
    int64_t bytes_of(int64_t slots, int64_t snapshots) const {
      return bytes * (slots + snapshots) + slots * log_rows * log_bytes;
    }
  };
  const std::vector<Plane>& planes() const { return planes_; }
  const std::vector<State>& states() const { return states_; }
  /// All planes together, for `pages` page ids.
  int64_t bytes_of(int64_t pages) const;
  /// Most page ids for which bytes_of() is at most `bytes`, below 2^31.
  int64_t pages_within(int64_t bytes) const;
  /// All states together.
  int64_t state_bytes(int64_t slots, int64_t snapshots) const;

 private:
  std::vector<Plane> planes_;
  std::vector<State> states_;
  int64_t max_pages_ = 0;
  int64_t spare_pages_ = 0;
  int32_t log_rows_ = 1;
};

/// The planes of one set of pages and the states of one set of slots, as ops see them.
class KvMemory {
 public:
  /// Allocates `pages` pages of every plane on the device, or as many as the plane may have, and every state for
  /// `slots` slots and `snapshots` snapshots.
  KvMemory(Ops& ops, const KvLayout& layout, int32_t pages, int32_t slots = 1, int32_t snapshots = 0);

  KvPlane plane(int32_t index) const { return planes_[index]; }
  int32_t pages() const { return pages_; }  ///< page ids, without spare ones
  StatePlane state(int32_t index) const { return states_[index]; }
  bool has_states() const { return !states_.empty(); }
  int32_t snapshots() const { return snapshots_; }
  int64_t bytes() const;
  int64_t bytes_of_page() const;  ///< in all planes
  /// Writes zeros to the first `pages` pages of every plane, so that reading them takes what reading takes: memory that
  /// was never written may not be there.
  void clear(int32_t pages) const;

  /// Copies every state of a snapshot to a slot, whose logs count no longer.
  void restore(int32_t snapshot, int32_t slot) const;

 private:
  Ops& ops_;
  int32_t pages_, snapshots_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
  std::vector<KvPlane> planes_;
  std::vector<StatePlane> states_;
};

}  // namespace ashlar
