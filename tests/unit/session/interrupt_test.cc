// SPDX-License-Identifier: Apache-2.0
#include "session/interrupt.h"

#include <gtest/gtest.h>

#include <csignal>

namespace ashlar {
namespace {

constexpr auto kBoth = InterruptScope::Signals::kInterruptAndTerminate;

class Interrupting : public ::testing::TestWithParam<int> {};

TEST(InterruptScope, TerminationEndsWhereItIsNoWish) {
  EXPECT_EXIT(
      {
        const InterruptScope scope;
        raise(SIGTERM);
      },
      ::testing::KilledBySignal(SIGTERM), "");
}

TEST_P(Interrupting, OneSignalIsAWishAndTheScopeGivesTheOldMeaningBack) {
  {
    const InterruptScope scope(kBoth);
    EXPECT_FALSE(InterruptScope::requested());
    raise(GetParam());
    EXPECT_TRUE(InterruptScope::requested());
  }
  struct sigaction after = {};
  sigaction(GetParam(), nullptr, &after);
  EXPECT_EQ(after.sa_handler, SIG_DFL);
  const InterruptScope next;
  EXPECT_FALSE(InterruptScope::requested());
}

TEST_P(Interrupting, TheSecondOfItsKindEnds) {
  EXPECT_EXIT(
      {
        const InterruptScope scope(kBoth);
        raise(GetParam());
        raise(GetParam());
      },
      ::testing::KilledBySignal(GetParam()), "");
}

INSTANTIATE_TEST_SUITE_P(Signals, Interrupting, ::testing::Values(SIGINT, SIGTERM));

}  // namespace
}  // namespace ashlar
