// SPDX-License-Identifier: Apache-2.0
#include "server/http/connection/memory_budget.h"

namespace ashlar::server {

bool MemoryBudget::reserve(size_t bytes, bool small) {
  const size_t limit = small ? total_ : for_large();
  size_t before = used_.load(std::memory_order_relaxed);
  do {
    if (before > limit || bytes > limit - before) return false;
  } while (!used_.compare_exchange_weak(before, before + bytes, std::memory_order_relaxed));
  return true;
}

void MemoryBudget::release(size_t bytes) {
  used_.fetch_sub(bytes, std::memory_order_relaxed);
  released_.fetch_add(bytes, std::memory_order_relaxed);
}

bool MemoryBudget::take_trim_due() {
  constexpr size_t kMuch = size_t{16} << 20, kLittle = size_t{1} << 20;
  if (released_.load(std::memory_order_relaxed) < kMuch || used() > kLittle) return false;
  return released_.exchange(0, std::memory_order_relaxed) >= kMuch;
}

bool MemoryShare::set(size_t bytes) {
  if (budget_ != nullptr && bytes > bytes_) {
    if (!budget_->reserve(bytes - bytes_, bytes <= MemoryBudget::kSmall)) return false;
  } else if (budget_ != nullptr && bytes < bytes_) {
    budget_->release(bytes_ - bytes);
  }
  bytes_ = bytes;
  return true;
}

}  // namespace ashlar::server
