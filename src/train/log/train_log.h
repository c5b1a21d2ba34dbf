// SPDX-License-Identifier: Apache-2.0
#pragma once
// train-log.jsonl: what each step reported, one JSON object a line, for notebooks and for later; and the same numbers
// as an event file of TensorBoard in the same folder.

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>

#include "io/json.h"
#include "train/log/event_file.h"

namespace ashlar {

double seconds_since_1970();  ///< now

class TrainLog {
 public:
  static constexpr const char* kEvents = "events.out.tfevents.ashlar";

  /// Goes on after the lines of the first `steps` steps, which it keeps; later ones, and a line that a kill cut short,
  /// are of a run that has not been. The event file is written anew of the lines that are kept, as if
  /// their steps had followed one another up to now. Throws Error("file", ...) if a file cannot be written.
  TrainLog(const std::filesystem::path& path, int64_t steps, std::function<double()> clock = seconds_since_1970);

  /// Appends a line, whose "step" is the number of its step. Throws Error("file", ...) if the disk is full.
  void write(const Json& line);

 private:
  std::filesystem::path path_;
  std::ofstream file_;
  std::function<double()> clock_;
  std::optional<EventFile> events_;
};

}  // namespace ashlar
