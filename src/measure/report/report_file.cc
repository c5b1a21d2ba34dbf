// SPDX-License-Identifier: Apache-2.0
#include "measure/report/report_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "base/error.h"
#include "io/durable_file.h"

namespace ashlar {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const std::string& path, const char* what, int why) {
  throw Error("measure", path + ": " + what + (why != 0 ? std::string(": ") + std::strerror(why) : ""));
}

// 0, or why the content cannot be written.
int write_all(const fs::path& path, const std::string& content) {
  errno = 0;
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << content;
  file.close();
  return file ? 0 : errno != 0 ? errno : EIO;
}

}  // namespace

ReportFile::ReportFile(std::string path) : path_(std::move(path)) {
  if (!wanted()) return;
  std::error_code failed;
  const fs::file_status status = fs::status(path_, failed);
  // /dev/stdout may be a file that somebody holds open: it must stay the same one.
  const bool named = !path_.starts_with("/dev/") && !path_.starts_with("/proc/");
  if (named) target_ = fs::weakly_canonical(path_, failed);
  if (!named || failed) target_ = path_;
  if (fs::is_directory(status)) fail(path_, "cannot be opened for writing", EISDIR);
  if (fs::exists(status) && access(target_.c_str(), W_OK) != 0) fail(path_, "cannot be opened for writing", errno);
  const fs::path parent = target_.has_parent_path() ? target_.parent_path() : fs::path(".");
  const bool room = access(parent.c_str(), W_OK | X_OK) == 0;
  if (!fs::exists(status) && !room) fail(path_, "cannot be opened for writing", errno);
  replaces_ = named && room && (!fs::exists(status) || fs::is_regular_file(status));
}

void ReportFile::write(const std::string& content) {
  if (!wanted()) return;
  if (!replaces_) {
    if (const int why = write_all(target_, content); why != 0) fail(path_, "cannot be written", why);
    return;
  }
  const fs::path fresh = target_.string() + std::string(kUnfinished) + std::to_string(getpid());
  int why = write_all(fresh, content);
  std::error_code failed;
  if (why == 0) {
    const fs::file_status old = fs::status(target_, failed);
    if (fs::exists(old)) fs::permissions(fresh, old.permissions(), failed);
    fs::rename(fresh, target_, failed);
    why = failed.value();
  }
  if (why == 0) return;
  fs::remove(fresh, failed);
  fail(path_, "cannot be written", why);
}

}  // namespace ashlar
