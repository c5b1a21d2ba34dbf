#pragma once
// Which page is in which frame, of planes that have fewer frames than there are pages.

#include <cstdint>
#include <vector>

#include "kv/page_list.h"

namespace ashlar {

/// A page takes a frame when it is claimed and keeps it until another page needs it: the page whose last claim is the
/// longest ago gives way, but never one that was claimed in the same step. O(1), and nothing is allocated after
/// construction. Not thread safe.
class PageFrames {
 public:
  static constexpr int32_t kNone = -1;

  PageFrames(int32_t pages, int32_t frames);

  /// Claims before this may give way from now on.
  void begin_step() { ++step_; }

  struct Claim {
    int32_t frame;
    int32_t evicted;  ///< the page that has lost this frame, or kNone
  };
  /// Aborts if every frame was claimed for another page in this step.
  Claim claim(int32_t page);

  /// kNone if it is in none.
  int32_t frame_of(int32_t page) const { return frame_of_[static_cast<size_t>(page)]; }
  int32_t frames() const { return frames_; }

  /// Aborts unless the pages of the list, and no others, have frames, one each, below size, and stand in order of step.
  void check_integrity() const;

 private:
  const int32_t frames_;
  std::vector<int32_t> frame_of_;    // per page
  std::vector<int64_t> claimed_in_;  // per page: step of its last claim
  PageList claimed_;                 // pages in frames, oldest claim first; their frames are 0 .. size - 1
  int64_t step_ = 0;
};

}  // namespace ashlar
