// SPDX-License-Identifier: Apache-2.0
#include "app/serve/idle_learner.h"

#include <algorithm>

namespace ashlar {
namespace {

constexpr int32_t kMaxDoublings = 10;
constexpr int32_t kMaxDoublingsOfAnswers = 3;  // more could take a server with few requests months

}  // namespace

bool IdleLearner::has_enough(const TrafficFiles::Counts& traffic) const {
  const int64_t least = policy_.new_answers << std::min(failures_, kMaxDoublingsOfAnswers);
  const auto share = static_cast<int64_t>(policy_.new_share * static_cast<double>(traffic.answers));
  return traffic.added - taken_ >= std::max(least, share);
}

IdleLearner::Action IdleLearner::next(int64_t now_ns, bool idle, const TrafficFiles::Counts& traffic) {
  if (!idle) {
    idle_since_ns_ = -1;
  } else if (idle_since_ns_ < 0) {
    idle_since_ns_ = now_ns;
  }
  const std::chrono::nanoseconds quiet(idle ? now_ns - idle_since_ns_ : -1);
  switch (state_) {
    case State::kWaits:
      if (quiet < policy_.begins_after || now_ns < not_before_ns_ || !has_enough(traffic)) return Action::kNone;
      taken_ = traffic.added;
      state_ = State::kTrains;
      return Action::kBegin;
    case State::kTrains:
      if (idle) return Action::kNone;
      state_ = State::kPaused;
      return Action::kPause;
    case State::kPaused:
      if (quiet < policy_.goes_on_after) return Action::kNone;
      state_ = State::kTrains;
      return Action::kGoOn;
    case State::kWon:
      return quiet < policy_.goes_on_after ? Action::kNone : Action::kReplace;
  }
  return Action::kNone;
}

void IdleLearner::ended(int64_t now_ns, Outcome outcome) {
  state_ = outcome == Outcome::kWon ? State::kWon : State::kWaits;
  if (outcome != Outcome::kFailed) {
    failures_ = 0;
    return;
  }
  const std::chrono::nanoseconds pause =
      std::min(policy_.pause * (int64_t{1} << std::min(failures_, kMaxDoublings)), policy_.longest_pause);
  ++failures_;
  not_before_ns_ = now_ns + pause.count();
}

}  // namespace ashlar
