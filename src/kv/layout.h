#pragma once
// Planes: what each model layer keeps per page. One page id indexes all of them, except those that have fewer pages.

#include <algorithm>
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

  /// Planes that are added from now on have at most `most` pages, called window pages, and the caller says which page
  /// is in which window page (kv/window_pages.h). 0: a page for every page id again.
  void limit_pages(int64_t most) { max_pages_ = most; }

  /// Planes that are added from now on have so many pages more, whose ids follow the others: room for what lasts a
  /// pass.
  void add_spare_pages(int64_t n) { spare_pages_ = n; }

  struct Plane {
    std::string name;
    int64_t bytes_per_page;
    int64_t max_pages;    ///< 0: no limit
    int64_t spare_pages;  ///< beyond that
    /// Where there are so many page ids.
    int64_t pages_of(int64_t pages) const { return (max_pages > 0 ? std::min(pages, max_pages) : pages) + spare_pages; }
  };
  const std::vector<Plane>& planes() const { return planes_; }
  /// All planes together, for so many page ids.
  int64_t bytes_of(int64_t pages) const;
  /// Most page ids for which bytes_of() is at most `bytes`, below 2^31.
  int64_t pages_within(int64_t bytes) const;

 private:
  std::vector<Plane> planes_;
  int64_t max_pages_ = 0;
  int64_t spare_pages_ = 0;
};

/// The planes of one set of pages, as ops see them.
class KvMemory {
 public:
  /// Allocates `pages` pages of every plane on the device, or as many as the plane may have.
  KvMemory(Ops& ops, const KvLayout& layout, int32_t pages);

  KvPlane plane(int32_t index) const { return planes_[index]; }
  int32_t pages() const { return pages_; }  ///< page ids, without spare ones
  int64_t bytes() const;

 private:
  int32_t pages_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
  std::vector<KvPlane> planes_;
};

}  // namespace ashlar
