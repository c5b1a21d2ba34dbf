// SPDX-License-Identifier: Apache-2.0
#pragma once
// What requests and answers may hold of memory together.

#include <atomic>
#include <cstddef>

namespace ashlar::server {

/// Bytes of bodies that have come, of what it takes to read them, and of answers that their clients have not taken.
/// Thread-safe.
class MemoryBudget {
 public:
  /// What a request or answer may hold of the share that is kept for small ones, so that others can fill the rest
  /// without keeping them out.
  static constexpr size_t kSmall = size_t{64} << 10;

  explicit MemoryBudget(size_t total) : total_(total) {}

  /// False, and nothing taken, if it does not fit. `small`: its holder will hold at most kSmall bytes.
  bool reserve(size_t bytes, bool small = false);
  void release(size_t bytes);

  size_t used() const { return used_.load(std::memory_order_relaxed); }
  size_t total() const { return total_; }
  /// Whether requests beyond the small ones are turned away now.
  bool full() const { return used() + kSmall > for_large(); }
  /// True once after much was released and little is left: time to give memory back to the system.
  bool take_trim_due();

 private:
  size_t for_large() const { return total_ - total_ / 8; }

  const size_t total_;
  std::atomic<size_t> used_{0};
  std::atomic<size_t> released_{0};  ///< since the last trim
};

/// A part of the budget, given back at the end of its life.
class MemoryShare {
 public:
  explicit MemoryShare(MemoryBudget* budget) : budget_(budget) {}
  ~MemoryShare() { set(0); }
  MemoryShare(const MemoryShare&) = delete;
  MemoryShare& operator=(const MemoryShare&) = delete;

  /// Holds `bytes` from here on; false, and nothing changed, if they do not fit. Fewer always do.
  bool set(size_t bytes);
  size_t bytes() const { return bytes_; }

 private:
  MemoryBudget* const budget_;  ///< null: no limit
  size_t bytes_ = 0;
};

}  // namespace ashlar::server
