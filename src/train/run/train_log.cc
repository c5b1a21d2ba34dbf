// SPDX-License-Identifier: Apache-2.0
#include "train/run/train_log.h"

#include <cerrno>
#include <cstring>
#include <string>

#include "base/error.h"
#include "io/durable_file.h"
#include "io/mapped_file.h"

namespace ashlar {
namespace {

// Lines of the first steps. A run stops in the midst of a line only where it ends.
std::string kept_lines(const std::filesystem::path& path, int64_t steps) {
  if (steps == 0 || !file_exists(path)) return {};
  std::ifstream file(path);
  std::string kept;
  for (std::string line; std::getline(file, line);) {
    try {
      const Json object = parse_json(line, path.string());
      if (object.is_object() && object.value("step", Json()).is_number() && object["step"] <= Json(steps)) {
        kept += line + "\n";
      }
    } catch (const Error&) {
    }
  }
  return kept;
}

}  // namespace

TrainLog::TrainLog(const std::filesystem::path& path, int64_t steps) : path_(path) {
  write_durably(path, kept_lines(path, steps));
  file_.open(path, std::ios::app);
}

void TrainLog::write(const Json& line) {
  errno = 0;
  file_ << line.dump() << "\n" << std::flush;
  if (!file_) throw Error("file", path_.string() + ": cannot be written: " + std::strerror(errno));
}

}  // namespace ashlar
