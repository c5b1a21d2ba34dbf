#include "measure/report_file.h"

#include <utility>

#include "base/error.h"

namespace ashlar {

ReportFile::ReportFile(std::string path) : path_(std::move(path)) {
  if (!wanted()) return;
  file_.open(path_, std::ios::binary | std::ios::trunc);
  if (!file_) throw Error("measure", path_ + ": cannot be opened for writing");
}

void ReportFile::write(const std::string& content) {
  if (!wanted()) return;
  file_ << content;
  file_.flush();
  if (!file_) throw Error("measure", path_ + ": cannot be written");
}

}  // namespace ashlar
