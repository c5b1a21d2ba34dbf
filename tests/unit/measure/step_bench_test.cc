// SPDX-License-Identifier: Apache-2.0
#include "measure/engine/step_bench.h"

#include <gtest/gtest.h>

#include "device/device.h"
#include "unit/measure/known_decoder.h"

namespace ashlar {
namespace {

/// Counts the prompts' chunks it is asked to read.
class CountingSteps final : public KnownDecoder {
 public:
  CountingSteps(int32_t width, int* chunks) : KnownDecoder(width), chunks_(chunks) {}
  void enqueue(const StepPlan& plan, SlotTable& slots, StepResult& result) override {
    for (const Span& span : plan.spans) *chunks_ += span.prompt != nullptr ? 1 : 0;
    KnownDecoder::enqueue(plan, slots, result);
  }

 private:
  int* chunks_;
};

// However short answers are: what is timed is a step, and no prompt that is read again before it.
TEST(StepBench, TimesStepsAlone) {
  const std::unique_ptr<Ops> ops = make_device("ref", {});
  const std::vector<int32_t> prompt(40, 1);
  for (const int32_t width : {1, 8, 16}) {
    for (const int32_t max_tokens : {1, 2, 8, 15, 16, 17, 64}) {
      SCOPED_TRACE("width " + std::to_string(width) + ", " + std::to_string(max_tokens) + " tokens");
      int chunks = 0;
      StepBench bench(*ops, std::make_unique<CountingSteps>(width, &chunks), prompt, max_tokens, width, 64);
      for (int round = 0; round < 3; ++round) {
        bench.warm_up();
        bench.reset();
        chunks = 0;
        bench.step();
        EXPECT_EQ(chunks, 0);
        EXPECT_EQ(bench.tokens(), width);
      }
    }
  }
}

}  // namespace
}  // namespace ashlar
