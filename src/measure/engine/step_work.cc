// SPDX-License-Identifier: Apache-2.0
#include "measure/engine/step_work.h"

#include <algorithm>

namespace ashlar {
namespace {

constexpr int32_t kAnswers = 3;  // of each length
constexpr int32_t kBefore = 3;   // rounds before: passes whose shape has come a few times may take another way

struct Watched {
  DeviceWork work;
  int64_t steps = 0;
};

}  // namespace

StepWork measure_step_work(DeviceProbe& probe, int32_t tokens, const MakeAnswer& answer) {
  const auto watched = [&](int32_t index, int32_t length) {
    probe.watch();
    const int64_t steps = answer(index, length);
    return Watched{probe.work(), steps};
  };
  const int32_t half = std::max(tokens / 2, 1);
  for (int32_t i = 0; i < kBefore * kAnswers; ++i) watched(i % kAnswers, half), watched(i % kAnswers, tokens);
  StepWork all;
  for (int32_t i = 0; i < kAnswers; ++i) {
    const Watched few = watched(i, half), many = watched(i, tokens);
    all.steps += many.steps - few.steps;
    all.seconds += many.work.seconds - few.work.seconds;
    all.idle += many.work.idle - few.work.idle;
    all.loose_launches += static_cast<double>(many.work.loose_launches - few.work.loose_launches);
  }
  if (all.steps <= 0 || all.seconds <= 0) return {};
  const auto steps = static_cast<double>(all.steps);
  // A short answer may have had a pass or two that the long one found recorded.
  return {all.steps, all.seconds / steps, all.idle / all.seconds, std::max(0.0, all.loose_launches / steps)};
}

}  // namespace ashlar
