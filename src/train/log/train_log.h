// SPDX-License-Identifier: Apache-2.0
#pragma once
// train-log.jsonl: what each step reported, one JSON object a line, for notebooks and for later; and the same numbers
// as an event file of TensorBoard in the same folder.

#include <cstdint>
#include <filesystem>
#include <fstream>

#include "io/json.h"
#include "train/log/event_file.h"

namespace ashlar {

class TrainLog {
 public:
  static constexpr const char* kEvents = "events.out.tfevents.ashlar";

  /// Goes on after the lines of the first `steps` steps, which it keeps; later ones, and a line that a kill cut short,
  /// are of a run that has not been. The event file is written anew of the lines that are kept. Throws Error("file",
  /// ...) if the file cannot be written.
  TrainLog(const std::filesystem::path& path, int64_t steps);

  /// Appends a line, whose "step" is the number of its step. Throws Error("file", ...) if the disk is full.
  void write(const Json& line);

 private:
  std::filesystem::path path_;
  std::ofstream file_;
  EventFile events_;
};

}  // namespace ashlar
