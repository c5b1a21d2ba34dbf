// SPDX-License-Identifier: Apache-2.0
#include "io/durable_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
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

}  // namespace

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
  const std::string begin = path.filename().string() + std::string(kUnfinished);
  std::vector<std::filesystem::path> found;
  std::error_code ignored;
  for (std::filesystem::directory_iterator entry(path.parent_path(), ignored), end; entry != end;
       entry.increment(ignored)) {
    if (entry->path().filename().string().starts_with(begin)) found.push_back(entry->path());
  }
  for (const std::filesystem::path& file : found) std::filesystem::remove(file, ignored);
}

void write_durably(const std::filesystem::path& path, std::string_view content) {
  DurableFile file(path);
  file.write(content);
  file.commit();
}

}  // namespace ashlar
