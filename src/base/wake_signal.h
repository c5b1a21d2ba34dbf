// SPDX-License-Identifier: Apache-2.0
#pragma once
// Wakes a thread that waits for news from any of several others, without a lock.

#include <atomic>
#include <cstdint>

namespace ashlar {

class WakeSignal {
 public:
  /// Changes with every raise().
  uint32_t count() const { return count_.load(std::memory_order_acquire); }
  void raise() {
    count_.fetch_add(1, std::memory_order_release);
    count_.notify_all();
  }
  /// Until count() is no longer `seen`.
  void wait(uint32_t seen) const { count_.wait(seen, std::memory_order_acquire); }

 private:
  std::atomic<uint32_t> count_ = 0;
};

}  // namespace ashlar
