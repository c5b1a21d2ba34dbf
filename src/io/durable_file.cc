// SPDX-License-Identifier: Apache-2.0
#include "io/durable_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <utility>
#include <vector>

#include "base/error.h"

namespace ashlar {
namespace {

// A rename lasts once the folder that holds the name is on the disk. File systems that cannot say so are as good as
// they are.
void sync_folder(const std::filesystem::path& path) {
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  fsync(fd);
  close(fd);
}

// "17-0": a process's number and that of one of its files.
bool is_two_numbers(std::string_view text) {
  const size_t dash = text.find('-');
  if (dash == std::string_view::npos) return false;
  const std::string_view parts[] = {text.substr(0, dash), text.substr(dash + 1)};
  return std::ranges::all_of(parts, [](std::string_view part) {
    return !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
  });
}

}  // namespace

bool is_unfinished(std::string_view name, std::string_view of) {
  return name.starts_with(of) && name.substr(of.size()).starts_with(kUnfinished) &&
         is_two_numbers(name.substr(of.size() + kUnfinished.size()));
}

DurableFile::DurableFile(std::filesystem::path path, Options options) : path_(std::move(path)), sync_(options.sync) {
  const std::string begin = path_.string() + std::string(kUnfinished) + std::to_string(getpid()) + "-";
  // Whatever a program of the same number left: numbers are given again, in a container from 1 on.
  for (int number = 0; fd_ < 0; ++number) {
    fresh_ = begin + std::to_string(number);
    fd_ = open(fresh_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, options.mode);
    if (fd_ < 0 && errno != EEXIST) fail("cannot be opened for writing");
  }
}

DurableFile::~DurableFile() {
  if (fd_ < 0) return;
  close(fd_);
  unlink(fresh_.c_str());
}

void DurableFile::fail(const char* what) const {
  throw Error("file", path_.string() + ": " + what + ": " + std::strerror(errno));
}

void DurableFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("cannot be written");
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
}

void DurableFile::commit() {
  if (sync_ && fsync(fd_) != 0) fail("cannot be written");
  if (rename(fresh_.c_str(), path_.c_str()) != 0) fail("cannot be replaced");
  close(std::exchange(fd_, -1));
  if (sync_) sync_folder(path_);
}

void remove_unfinished(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  std::vector<std::filesystem::path> found;
  std::error_code ignored;
  for (std::filesystem::directory_iterator entry(path.parent_path(), ignored), end; entry != end;
       entry.increment(ignored)) {
    if (is_unfinished(entry->path().filename().string(), name)) found.push_back(entry->path());
  }
  for (const std::filesystem::path& file : found) std::filesystem::remove(file, ignored);
}

void remove_abandoned(const std::filesystem::path& folder, const std::function<bool(std::string_view)>& is_of) {
  std::vector<std::filesystem::path> found;
  std::error_code ignored;
  for (std::filesystem::directory_iterator entry(folder, ignored), end; entry != end; entry.increment(ignored)) {
    const std::string name = entry->path().filename().string();
    const size_t end_of_name = std::min(name.rfind(kUnfinished), name.size());
    const std::string_view of = std::string_view(name).substr(0, end_of_name);
    if (!is_unfinished(name, of) || !is_of(of)) continue;
    pid_t process = 0;
    const char* digits = name.data() + end_of_name + kUnfinished.size();
    if (std::from_chars(digits, name.data() + name.size(), process).ec != std::errc() || process == 0) continue;
    const bool runs = process != getpid() && (kill(process, 0) == 0 || errno != ESRCH);
    if (!runs) found.push_back(entry->path());
  }
  for (const std::filesystem::path& file : found) std::filesystem::remove(file, ignored);
}

void write_durably(const std::filesystem::path& path, std::string_view content) {
  DurableFile file(path);
  file.write(content);
  file.commit();
}

}  // namespace ashlar
