#pragma once

#include <fstream>
#include <string>

namespace ashlar {

/// A file for a report, opened before the measurement so that a wrong path is told at once. With an empty path it does
/// nothing.
class ReportFile {
 public:
  /// Throws Error("measure", ...) if the file cannot be opened for writing.
  explicit ReportFile(std::string path);
  /// Writes the whole content. Throws Error("measure", ...) if the disk is full or the like.
  void write(const std::string& content);
  bool wanted() const { return !path_.empty(); }

 private:
  std::string path_;
  std::ofstream file_;
};

}  // namespace ashlar
