// SPDX-License-Identifier: Apache-2.0
#include "train/log/train_log.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "io/durable_file.h"
#include "io/mapped_file.h"

namespace ashlar {
namespace {

// Lines of the first steps. A run stops in the midst of a line only where it ends.
std::vector<Json> kept_lines(const std::filesystem::path& path, int64_t steps) {
  std::vector<Json> kept;
  if (steps == 0 || !file_exists(path)) return kept;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    try {
      Json object = parse_json(line, path.string());
      if (object.is_object() && object.value("step", Json()).is_number() && object["step"] <= Json(steps)) {
        kept.push_back(std::move(object));
      }
    } catch (const Error&) {
    }
  }
  return kept;
}

// What TensorBoard draws of a line; what is no number, as the loss of a step that was skipped, is left out.
std::vector<Scalar> scalars_of(const Json& line) {
  std::vector<Scalar> scalars;
  const auto add = [&](std::string tag, const Json& value) {
    if (value.is_number()) scalars.push_back({std::move(tag), value.get<float>()});
  };
  for (const char* name : {"loss", "expected_acceptance", "gradient_norm"}) add(name, line.value(name, Json()));
  const Json tokens = line.value("tokens", Json()), seconds = line.value("seconds", Json());
  if (tokens.is_number() && seconds.is_number() && seconds > Json(0)) {
    add("tokens_per_second", tokens.get<double>() / seconds.get<double>());
  }
  const Json accuracy = line.value("position_accuracy", Json::array());
  for (size_t i = 0; accuracy.is_array() && i < accuracy.size(); ++i) {
    add((i < 9 ? "position_accuracy/draft 0" : "position_accuracy/draft ") + std::to_string(i + 1), accuracy[i]);
  }
  return scalars;
}

double seconds_of(const Json& line) {
  const Json seconds = line.value("seconds", Json());
  return seconds.is_number() ? seconds.get<double>() : 0;
}

}  // namespace

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

TrainLog::TrainLog(const std::filesystem::path& path, int64_t steps, std::function<double()> clock)
    : path_(path), clock_(std::move(clock)) {
  const std::vector<Json> kept = kept_lines(path, steps);
  std::string text;
  double time = clock_();  // when the first of them began, if they had followed one another up to now
  for (const Json& line : kept) {
    text += line.dump() + "\n";
    time -= seconds_of(line);
  }
  write_durably(path, text);
  errno = 0;
  file_.open(path, std::ios::app);
  if (!file_) throw Error("file", path_.string() + ": cannot be written: " + std::strerror(errno));
  events_.emplace(path.parent_path() / kEvents, time);
  for (const Json& line : kept) {
    time += seconds_of(line);
    events_->write(time, line["step"].get<int64_t>(), scalars_of(line));
  }
}

void TrainLog::write(const Json& line) {
  errno = 0;
  file_ << line.dump() << "\n" << std::flush;
  if (!file_) throw Error("file", path_.string() + ": cannot be written: " + std::strerror(errno));
  events_->write(clock_(), line["step"].get<int64_t>(), scalars_of(line));
}

}  // namespace ashlar
