// SPDX-License-Identifier: Apache-2.0
#pragma once
// Times several pieces of work in turns, so that what disturbs the machine disturbs all alike.

#include <functional>
#include <string>
#include <vector>

namespace ashlar {

struct TimedCase {
  std::string name;
  std::function<void()> run;
  int every = 1;                ///< runs in each `every`-th round
  std::vector<double> seconds;  ///< filled by run_interleaved
  /// Run before each, untimed: what is used in a row should find the caches as its like leaves them.
  std::function<void()> before = {};

  double median_seconds() const;
  /// 10th percentile: close to the undisturbed time, less moody than the minimum.
  double p10_seconds() const;
  double best_seconds() const;
};

/// Runs each case `warmup` times, then `rounds` rounds of all cases; each round starts with another case, so that no
/// case always follows the same one. `progress(round)` is called after each round.
void run_interleaved(std::vector<TimedCase>& cases, int rounds, int warmup,
                     const std::function<void(int)>& progress = {});

}  // namespace ashlar
