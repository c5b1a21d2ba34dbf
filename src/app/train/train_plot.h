// SPDX-License-Identifier: Apache-2.0
#pragma once
// Pictures of training runs, of the lines that they log.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace ashlar {

/// A line of train-log.jsonl (train/run/train_run.cc).
struct LoggedStep {
  int64_t step = 0;
  double loss = 0, expected_acceptance = 0;
  std::vector<double> position_accuracy;  ///< of draft 1, 2, ...
  double tokens = 0, seconds = 0;
};

struct LoggedRun {
  std::string name;               ///< for the legend
  std::vector<LoggedStep> steps;  ///< in their order, without those that were skipped
  int64_t skipped = 0;
};

/// Reads a log, or that of a training's output folder. A last line that a kill or a running training left unfinished is
/// left out. Throws Error("plot", ...) naming file and line for what is no such log, and for one without a step.
LoggedRun read_train_log(const std::filesystem::path& path);

/// A page that needs nothing else: loss, expected acceptance and tokens a second of all runs over their steps, and of
/// each run the accuracy by position. At most 72 points a line, each the mean of as many steps.
std::string train_plot(const std::vector<LoggedRun>& runs);

/// "NAME: 300 steps, loss 5.10 to 2.31, acceptance 1.20 to 2.05", of the first and the last tenth.
std::string describe_run(const LoggedRun& run);

}  // namespace ashlar
