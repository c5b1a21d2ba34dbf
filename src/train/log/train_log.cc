// SPDX-License-Identifier: Apache-2.0
#include "train/log/train_log.h"

#include <cerrno>
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

}  // namespace

TrainLog::TrainLog(const std::filesystem::path& path, int64_t steps)
    : path_(path), events_(path.parent_path() / kEvents) {
  std::string text;
  for (const Json& line : kept_lines(path, steps)) {
    text += line.dump() + "\n";
    events_.write(line["step"].get<int64_t>(), scalars_of(line));
  }
  write_durably(path, text);
  file_.open(path, std::ios::app);
}

void TrainLog::write(const Json& line) {
  errno = 0;
  file_ << line.dump() << "\n" << std::flush;
  if (!file_) throw Error("file", path_.string() + ": cannot be written: " + std::strerror(errno));
  events_.write(line["step"].get<int64_t>(), scalars_of(line));
}

}  // namespace ashlar
