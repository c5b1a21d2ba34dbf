#include "kv/page_frames.h"

#include "base/check.h"

namespace ashlar {

PageFrames::PageFrames(int32_t pages, int32_t frames)
    : frames_(frames),
      frame_of_(static_cast<size_t>(pages), kNone),
      claimed_in_(static_cast<size_t>(pages)),
      claimed_(pages) {
  ASHLAR_CHECK_LE(1, frames);
}

PageFrames::Claim PageFrames::claim(int32_t page) {
  int32_t& frame = frame_of_[static_cast<size_t>(page)];
  int32_t evicted = kNone;
  if (frame != kNone) {
    claimed_.remove(page);
  } else if (claimed_.size() < frames_) {
    frame = claimed_.size();
  } else {
    evicted = claimed_.front();
    ASHLAR_CHECK_LT(claimed_in_[static_cast<size_t>(evicted)], step_);
    claimed_.remove(evicted);
    frame = frame_of_[static_cast<size_t>(evicted)];
    frame_of_[static_cast<size_t>(evicted)] = kNone;
  }
  claimed_.push_back(page);
  claimed_in_[static_cast<size_t>(page)] = step_;
  return {frame, evicted};
}

void PageFrames::check_integrity() const {
  std::vector<bool> taken(static_cast<size_t>(claimed_.size()));
  int64_t step = 0;
  for (int32_t page = claimed_.front(); page != PageList::kNone; page = claimed_.after(page)) {
    const int32_t frame = frame_of(page);
    ASHLAR_CHECK_LE(0, frame);
    ASHLAR_CHECK_LT(frame, claimed_.size());
    ASHLAR_CHECK(!taken[static_cast<size_t>(frame)]);
    taken[static_cast<size_t>(frame)] = true;
    ASHLAR_CHECK_LE(step, claimed_in_[static_cast<size_t>(page)]);
    step = claimed_in_[static_cast<size_t>(page)];
  }
  for (size_t page = 0; page < frame_of_.size(); ++page) {
    ASHLAR_CHECK_EQ(frame_of_[page] != kNone, claimed_.contains(static_cast<int32_t>(page)));
  }
  ASHLAR_CHECK_LE(claimed_.size(), frames_);
}

}  // namespace ashlar
