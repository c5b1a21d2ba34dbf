#pragma once
// Planes: what each model layer keeps per page. One page id indexes all of them.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/ops.h"

namespace ashlar {

/// Collects planes before memory is made.
class KvLayout {
 public:
  /// Registers a plane of `bytes_per_page`; returns its index.
  int32_t add_plane(std::string name, int64_t bytes_per_page);

  struct Plane {
    std::string name;
    int64_t bytes_per_page;
  };
  const std::vector<Plane>& planes() const { return planes_; }
  int64_t bytes_per_page() const;  ///< of all planes together

 private:
  std::vector<Plane> planes_;
};

/// The planes of one set of pages, as ops see them.
class KvMemory {
 public:
  /// Allocates `pages` pages of every plane on the device.
  KvMemory(Ops& ops, const KvLayout& layout, int32_t pages);

  KvPlane plane(int32_t index) const { return planes_[index]; }
  int32_t pages() const { return pages_; }

 private:
  int32_t pages_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
  std::vector<KvPlane> planes_;
};

}  // namespace ashlar
