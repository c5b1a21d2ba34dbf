// SPDX-License-Identifier: Apache-2.0
#include "scenario/counted_allocations.h"

#include "scenario/replaced_new.h"

namespace ashlar::testing {

std::atomic<int64_t> allocations{0};
std::atomic<int64_t> fail_at{-1};
std::atomic<int64_t> fails{1};

bool next_allocation_fails() {
  const int64_t past = allocations.fetch_add(1) - fail_at.load();
  return fail_at.load() >= 0 && past >= 0 && past < fails.load();
}

}  // namespace ashlar::testing
