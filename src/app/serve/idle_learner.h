// SPDX-License-Identifier: Apache-2.0
#pragma once
// When a server trains its drafter on: a state machine without clock, processes or threads.

#include <chrono>
#include <cstdint>

#include "app/serve/traffic_files.h"

namespace ashlar {

class IdleLearner {
 public:
  struct Policy {
    /// Training begins when this number of answers came since the last time, and this share of all that are kept.
    int64_t new_answers = 200;
    double new_share = 0.25;
    /// It begins after so long without a request, and goes on after so long; after one it stops at once.
    std::chrono::nanoseconds begins_after = std::chrono::seconds(10), goes_on_after = std::chrono::seconds(2);
    /// After a failure; each further one doubles this, up to `longest_pause`, and the answers that it takes, up to
    /// eight times.
    std::chrono::nanoseconds pause = std::chrono::minutes(1), longest_pause = std::chrono::hours(6);
  };
  enum class Action : uint8_t {
    kNone,
    kBegin,
    kPause,
    kGoOn,
    kReplace,  ///< the drafter; asked again until replaced()
  };
  enum class Outcome : uint8_t { kWon, kNotWon, kFailed };

  explicit IdleLearner(const Policy& policy) : policy_(policy) {}

  /// What to do at `now_ns`, not before those of earlier calls; it counts as done. `idle`: no request has run since the
  /// call before.
  Action next(int64_t now_ns, bool idle, const TrafficFiles::Counts& traffic);
  /// The training has ended.
  void ended(int64_t now_ns, Outcome outcome);
  /// The drafter was replaced, or cannot be.
  void replaced() { state_ = State::kWaits; }

 private:
  enum class State : uint8_t { kWaits, kTrains, kPaused, kWon };
  bool has_enough(const TrafficFiles::Counts& traffic) const;

  const Policy policy_;
  State state_ = State::kWaits;
  int64_t idle_since_ns_ = -1;  // -1: something runs
  int64_t not_before_ns_ = 0;
  int64_t taken_ = 0;  // of what was added, when training last began
  int32_t failures_ = 0;
};

}  // namespace ashlar
