// SPDX-License-Identifier: Apache-2.0
#include "measure/engine/interleave.h"

#include "base/clock.h"
#include "measure/statistics.h"

namespace ashlar {

double TimedCase::median_seconds() const { return median(seconds); }
double TimedCase::p10_seconds() const { return quantile(seconds, 0.1); }
double TimedCase::best_seconds() const { return quantile(seconds, 0); }

void run_interleaved(std::vector<TimedCase>& cases, int rounds, int warmup, const std::function<void(int)>& progress) {
  for (TimedCase& one : cases) {
    for (int i = 0; i < warmup; ++i) one.run();
    one.seconds.clear();
  }
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < cases.size(); ++i) {
      TimedCase& one = cases[(i + static_cast<size_t>(round)) % cases.size()];
      if (round % one.every != 0) continue;
      if (one.before) one.before();
      const int64_t begin = now_ns();
      one.run();
      one.seconds.push_back(static_cast<double>(now_ns() - begin) * 1e-9);
    }
    if (progress) progress(round + 1);
  }
}

}  // namespace ashlar
