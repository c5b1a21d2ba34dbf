#include "kv/layout.h"

#include <utility>

namespace ashlar {

int32_t KvLayout::add_plane(std::string name, int64_t bytes_per_page) {
  planes_.push_back({std::move(name), bytes_per_page});
  return static_cast<int32_t>(planes_.size()) - 1;
}

int64_t KvLayout::bytes_per_page() const {
  int64_t total = 0;
  for (const Plane& plane : planes_) total += plane.bytes_per_page;
  return total;
}

KvMemory::KvMemory(Ops& ops, const KvLayout& layout, int32_t pages) : pages_(pages) {
  for (const KvLayout::Plane& plane : layout.planes()) {
    buffers_.push_back(ops.allocate(static_cast<size_t>(plane.bytes_per_page) * pages));
    planes_.push_back({buffers_.back()->data(), plane.bytes_per_page});
  }
}

}  // namespace ashlar
