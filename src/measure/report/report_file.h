// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

namespace ashlar {

/// A file for a report. That it can be written is asked before the measurement, so that a wrong path is reported at
/// once; what lies there stays whole until the new content is, which takes its place in one go. With an empty path it
/// does nothing.
class ReportFile {
 public:
  /// Throws Error("measure", ...) that says why the file could not be written.
  explicit ReportFile(std::string path);
  /// Writes the whole content. Throws Error("measure", ...) if the disk is full or the like.
  void write(const std::string& content);
  bool wanted() const { return !path_.empty(); }

 private:
  std::string path_;
  std::filesystem::path target_;  ///< with links followed
  bool replaces_ = false;         ///< by a new file of that name; otherwise a pipe or a device is written to
};

}  // namespace ashlar
