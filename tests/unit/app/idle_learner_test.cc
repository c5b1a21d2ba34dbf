// SPDX-License-Identifier: Apache-2.0
#include "app/serve/idle_learner.h"

#include <gtest/gtest.h>

namespace ashlar {
namespace {

using Action = IdleLearner::Action;
using Outcome = IdleLearner::Outcome;
using std::chrono::minutes;
using std::chrono::seconds;

class IdleLearnerTest : public testing::Test {
 protected:
  static IdleLearner::Policy policy() {
    IdleLearner::Policy policy;
    policy.new_answers = 100;
    policy.new_share = 0.5;
    policy.begins_after = seconds(10);
    policy.goes_on_after = seconds(2);
    policy.pause = minutes(1);
    policy.longest_pause = minutes(3);
    return policy;
  }
  Action idle(std::chrono::nanoseconds later) { return at(later, true); }
  Action busy(std::chrono::nanoseconds later) { return at(later, false); }
  Action at(std::chrono::nanoseconds later, bool idle) {
    now_ns_ += later.count();
    return learner_.next(now_ns_, idle, traffic_);
  }
  void add(int64_t answers) {
    traffic_.answers += answers;
    traffic_.added += answers;
  }

  int64_t now_ns_ = 5;
  TrafficFiles::Counts traffic_;
  IdleLearner learner_{policy()};
};

TEST_F(IdleLearnerTest, TrainsInQuietTimeAndGivesWayAtOnce) {
  EXPECT_EQ(idle(seconds(0)), Action::kNone);
  EXPECT_EQ(idle(seconds(3600)), Action::kNone);  // nothing to learn
  add(100);
  EXPECT_EQ(busy(seconds(1)), Action::kNone);
  EXPECT_EQ(idle(seconds(1)), Action::kNone);
  EXPECT_EQ(idle(seconds(9)), Action::kNone);
  EXPECT_EQ(busy(seconds(1)), Action::kNone);  // the ten seconds begin again
  EXPECT_EQ(idle(seconds(1)), Action::kNone);
  EXPECT_EQ(idle(seconds(10)), Action::kBegin);
  EXPECT_EQ(idle(seconds(100)), Action::kNone);
  EXPECT_EQ(busy(seconds(1)), Action::kPause);
  EXPECT_EQ(busy(seconds(5)), Action::kNone);
  EXPECT_EQ(idle(seconds(1)), Action::kNone);
  EXPECT_EQ(busy(seconds(1)), Action::kNone);
  EXPECT_EQ(idle(seconds(1)), Action::kNone);
  EXPECT_EQ(idle(seconds(2)), Action::kGoOn);
  EXPECT_EQ(busy(seconds(0)), Action::kPause);
}

TEST_F(IdleLearnerTest, ReplacesWhenNothingRunsAndThenWaitsForMoreTraffic) {
  add(100);
  idle(seconds(0));
  ASSERT_EQ(idle(seconds(10)), Action::kBegin);
  add(49);  // while it trained
  learner_.ended(now_ns_, Outcome::kWon);
  EXPECT_EQ(busy(seconds(1)), Action::kNone);
  EXPECT_EQ(idle(seconds(1)), Action::kNone);
  EXPECT_EQ(idle(seconds(2)), Action::kReplace);
  EXPECT_EQ(idle(seconds(1)), Action::kReplace);  // somebody came first
  learner_.replaced();
  add(50);
  EXPECT_EQ(idle(seconds(3600)), Action::kNone);  // 99 of 199
  add(1);
  EXPECT_EQ(idle(seconds(1)), Action::kBegin);
  learner_.ended(now_ns_, Outcome::kNotWon);
  add(100);
  EXPECT_EQ(idle(seconds(3600)), Action::kNone);  // of 300 half must be new
  add(100);
  EXPECT_EQ(idle(seconds(1)), Action::kBegin);
}

TEST_F(IdleLearnerTest, WaitsLongerAfterEachFailure) {
  add(100);
  idle(seconds(0));
  ASSERT_EQ(idle(seconds(10)), Action::kBegin);
  ASSERT_EQ(busy(seconds(1)), Action::kPause);
  learner_.ended(now_ns_, Outcome::kFailed);  // killed while it was stopped
  add(100);
  idle(seconds(0));
  EXPECT_EQ(idle(seconds(59)), Action::kNone);
  EXPECT_EQ(idle(seconds(3600)), Action::kNone);  // twice as many answers, too
  add(100);
  EXPECT_EQ(idle(seconds(1)), Action::kBegin);
  learner_.ended(now_ns_, Outcome::kFailed);
  add(1000);
  EXPECT_EQ(idle(seconds(119)), Action::kNone);
  EXPECT_EQ(idle(seconds(1)), Action::kBegin);
  learner_.ended(now_ns_, Outcome::kFailed);
  add(10'000);
  EXPECT_EQ(idle(seconds(179)), Action::kNone);
  EXPECT_EQ(idle(seconds(1)), Action::kBegin);  // not four minutes
  learner_.ended(now_ns_, Outcome::kNotWon);    // which is no failure
  add(20'000);
  EXPECT_EQ(idle(seconds(0)), Action::kBegin);
}

TEST_F(IdleLearnerTest, AsksForNoMoreThanEightTimesTheAnswers) {
  idle(seconds(0));
  for (int i = 0; i < 6; ++i) {
    traffic_.added += 10'000;  // of which old ones went away
    ASSERT_EQ(idle(seconds(3600)), Action::kBegin);
    learner_.ended(now_ns_, Outcome::kFailed);
  }
  traffic_.added += 799;
  EXPECT_EQ(idle(seconds(3600)), Action::kNone);
  traffic_.added += 1;
  EXPECT_EQ(idle(seconds(1)), Action::kBegin);
}

}  // namespace
}  // namespace ashlar
