// SPDX-License-Identifier: Apache-2.0
#include "measure/engine/step_work.h"

#include <gtest/gtest.h>

namespace ashlar {
namespace {

/// A device that works 8 ms and waits 2 ms in a step, with three kernels launched one by one; a prompt takes it 50 ms,
/// 40 of them idle, and 100 launches.
class KnownDevice final : public DeviceProbe {
 public:
  int64_t bytes() const override { return 0; }
  double read() override { return 0; }
  double copy() override { return 0; }
  double multiply() override { return 0; }
  void watch() override { noted_ = {}; }
  DeviceWork work() override { return noted_; }
  void mark() override {}
  std::vector<double> take_marks() override { return {}; }

  void answer(int64_t steps) {
    ++answers;
    noted_.seconds += 0.05 + 0.01 * static_cast<double>(steps);
    noted_.idle += 0.04 + 0.002 * static_cast<double>(steps);
    noted_.loose_launches += 100 + launches_a_step * steps;
  }
  int answers = 0;
  int64_t launches_a_step = 3;

 private:
  DeviceWork noted_;
};

TEST(StepWork, IsThatOfStepsWithoutThePrompt) {
  KnownDevice device;
  const StepWork work = measure_step_work(device, 40, [&](int32_t index, int32_t tokens) {
    const int64_t steps = tokens / (1 + index % 2);  // some answers have drafts that are right
    device.answer(steps);
    return steps;
  });
  EXPECT_EQ(work.steps, 20 + 10 + 20);
  EXPECT_NEAR(work.seconds, 0.01, 1e-9);
  EXPECT_NEAR(work.idle, 0.2, 1e-9);
  EXPECT_NEAR(work.loose_launches, 3, 1e-9);
}

TEST(StepWork, ShortAnswersWithMoreLaunchesMakeNoNegativeOnes) {
  KnownDevice device;
  device.launches_a_step = -1;
  const StepWork work = measure_step_work(device, 40, [&](int32_t, int32_t tokens) {
    device.answer(tokens);
    return int64_t{tokens};
  });
  EXPECT_EQ(work.loose_launches, 0);
}

TEST(StepWork, NothingIsSaidOfAnswersThatAllEndAtOnce) {
  KnownDevice device;
  const StepWork work = measure_step_work(device, 40, [&](int32_t, int32_t) {
    device.answer(1);
    return int64_t{1};
  });
  EXPECT_EQ(work.steps, 0);
  EXPECT_GT(device.answers, 0);
}

}  // namespace
}  // namespace ashlar
