// SPDX-License-Identifier: Apache-2.0
#include "cache/layout.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace ashlar {

int32_t KvLayout::add_paged(std::string name, int64_t bytes_per_page) {
  planes_.push_back({std::move(name), bytes_per_page, max_pages_, spare_pages_});
  return static_cast<int32_t>(planes_.size()) - 1;
}

int32_t KvLayout::add_state(std::string name, int64_t bytes, int64_t log_bytes) {
  const auto whole_lines = [](int64_t n) {  // each begins on a cache line
    constexpr int64_t kLine = 64;
    return (n + kLine - 1) / kLine * kLine;
  };
  states_.push_back({std::move(name), whole_lines(bytes), whole_lines(log_bytes), log_rows_});
  return static_cast<int32_t>(states_.size()) - 1;
}

int64_t KvLayout::bytes_of(int64_t pages) const {
  int64_t total = 0;
  for (const Plane& plane : planes_) total += plane.bytes_per_page * plane.pages_of(pages);
  return total;
}

int64_t KvLayout::pages_within(int64_t bytes) const {
  int64_t fits = 0;
  for (int64_t more = int64_t{1} << 30; more > 0; more /= 2) {
    if (bytes_of(fits + more) <= bytes) fits += more;
  }
  return fits;
}

int64_t KvLayout::state_bytes(int64_t slots, int64_t snapshots) const {
  int64_t total = 0;
  for (const State& state : states_) total += state.bytes_of(slots, snapshots);
  return total;
}

KvMemory::KvMemory(Ops& ops, const KvLayout& layout, int32_t pages, int32_t slots, int32_t snapshots)
    : ops_(ops), pages_(pages), snapshots_(snapshots) {
  for (const KvLayout::Plane& plane : layout.planes()) {
    buffers_.push_back(ops.allocate(static_cast<size_t>(plane.bytes_per_page * plane.pages_of(pages))));
    planes_.push_back({buffers_.back()->data(), plane.bytes_per_page});
  }
  for (const KvLayout::State& state : layout.states()) {
    buffers_.push_back(ops.allocate(static_cast<size_t>(state.bytes_of(slots, snapshots))));
    states_.push_back({buffers_.back()->data(), state.bytes, state.log_bytes, slots, state.log_rows});
  }
}

void KvMemory::restore(int32_t snapshot, int32_t slot) const {
  for (const StatePlane& state : states_) {
    ops_.copy_bytes(state.snapshot(snapshot), state.state(slot), static_cast<size_t>(state.stride));
  }
}

int64_t KvMemory::bytes_of_page() const {
  int64_t total = 0;
  for (const KvPlane& plane : planes_) total += plane.page_stride;
  return total;
}

void KvMemory::clear(int32_t pages) const {
  const std::vector<std::byte> zeros(size_t{1} << 18);
  for (size_t i = 0; i < planes_.size(); ++i) {
    const size_t bytes = std::min(buffers_[i]->size(), static_cast<size_t>(pages * planes_[i].page_stride));
    for (size_t at = 0; at < bytes; at += zeros.size()) {
      ops_.upload(zeros.data(), planes_[i].base + at, std::min(zeros.size(), bytes - at));
    }
  }
}

int64_t KvMemory::bytes() const {
  int64_t total = 0;
  for (const auto& buffer : buffers_) total += static_cast<int64_t>(buffer->size());
  return total;
}

}  // namespace ashlar
