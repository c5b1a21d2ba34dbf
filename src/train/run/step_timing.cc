// SPDX-License-Identifier: Apache-2.0
#include "train/run/step_timing.h"

#include <algorithm>
#include <vector>

namespace ashlar {
namespace {

constexpr int64_t kFewestBatches = 3;
constexpr double kTimedSeconds = 2;

}  // namespace

double usual_seconds(const std::function<double(int64_t batch)>& step) {
  int64_t n = 0;
  for (double all = 0; n < kFewestBatches || (n < kMaxTimedBatches && all < kTimedSeconds); ++n) all += step(n);
  std::vector<double> seconds;
  for (int64_t batch = 0; batch < n; ++batch) seconds.push_back(step(batch));
  const auto middle = seconds.begin() + static_cast<int64_t>(seconds.size() / 2);
  std::nth_element(seconds.begin(), middle, seconds.end());
  return *middle;
}

int64_t steps_within(double minutes, double seconds_each) {
  return std::max<int64_t>(1, static_cast<int64_t>(minutes * 60 / seconds_each));
}

}  // namespace ashlar
