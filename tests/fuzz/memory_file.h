// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace ashlar {

/// A file that lives in memory only, for readers that need a path.
class MemoryFile {
 public:
  MemoryFile() : fd_(::memfd_create("fuzz", 0)), path_("/proc/self/fd/" + std::to_string(fd_)) {
    if (fd_ < 0) std::abort();
  }
  /// For readers that go by the name: by a link with this suffix.
  explicit MemoryFile(const std::string& suffix) : MemoryFile() {
    const auto link = std::filesystem::temp_directory_path() / ("ashlar-fuzz-" + std::to_string(::getpid()) + suffix);
    std::filesystem::remove(link);
    std::filesystem::create_symlink(path_, link);
    path_ = link_ = link.string();
  }
  ~MemoryFile() {
    if (!link_.empty()) ::unlink(link_.c_str());
    ::close(fd_);
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  void fill(const uint8_t* data, size_t size) const {
    if (::ftruncate(fd_, 0) != 0 || ::pwrite(fd_, data, size, 0) != static_cast<ssize_t>(size)) std::abort();
  }
  const std::string& path() const { return path_; }

 private:
  int fd_;
  std::string path_, link_;
};

}  // namespace ashlar
