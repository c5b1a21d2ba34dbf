// SPDX-License-Identifier: Apache-2.0
#pragma once
// The device's side of the loop: launches run one after the other on a thread of their own, so that the engine can plan
// the next step meanwhile. With depth 1 they run on the caller's thread, and the loop is the plain one.

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "base/wake_signal.h"
#include "engine/scheduler.h"

namespace ashlar {

class Pipeline {
 public:
  static constexpr int32_t kMaxDepth = 2;

  Pipeline(Decoder& decoder, SlotTable& slots, int32_t depth, const StepLimits& limits);
  ~Pipeline();
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  int32_t inflight() const { return static_cast<int32_t>(launched_ - collected_); }
  bool full() const { return inflight() == depth_; }

  /// The step to plan next; it is not in flight. Not while full().
  Step& next() { return steps_[launched_ % depth_]; }
  /// Sends next() on its way.
  void launch();
  /// Takes back the step that was launched last if it waits for the one before it: it is next() again, as it was.
  bool reclaim();
  /// Waits for the oldest step in flight: true; or until news() is no longer `seen`: false.
  bool await(uint32_t seen);
  /// Returns the oldest step in flight, waiting for it. It may be next() again: to be used up before that is filled.
  Step& collect();

  /// Changes with every step that is done and every nudge().
  uint32_t news() const { return news_->count(); }
  /// Ends a wait for a step, from any thread.
  void nudge() { news_->raise(); }
  /// Waits until news() is no longer `seen`, whether anything is in flight or not.
  void wait(uint32_t seen) const { news_->wait(seen); }
  /// What nudge() raises; may outlive this.
  const std::shared_ptr<WakeSignal>& signal() const { return news_; }

 private:
  void run(Step& step);
  void serve();
  /// Waits for a step and begins it; false: the pipeline ends.
  bool begin();

  Decoder& decoder_;
  SlotTable& slots_;
  const int32_t depth_;
  std::array<Step, kMaxDepth> steps_;
  uint64_t launched_ = 0;   // engine thread
  uint64_t collected_ = 0;  // engine thread
  // Steps submitted << 32 | steps begun, both modulo 2^32: in one word, so that a step is begun or reclaimed, not both.
  std::atomic<uint64_t> turns_ = 0;
  std::atomic<uint64_t> finished_ = 0;  // device -> engine
  const std::shared_ptr<WakeSignal> news_ = std::make_shared<WakeSignal>();
  std::atomic<bool> stop_ = false;
  std::string lost_;  // why the device is; the thread's that runs steps
  std::thread thread_;
};

}  // namespace ashlar
