// SPDX-License-Identifier: Apache-2.0
#include "io/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "io/file_watch.h"

namespace ashlar {
namespace {

[[noreturn]] void fail_file(const std::filesystem::path& path, const std::string& what) {
  throw Error("file", path.string() + ": " + what);
}

// What a clone without git-lfs has in the place of a large file.
bool is_pointer(int fd, size_t size) {
  constexpr std::string_view kBegin = "version https://git-lfs";
  constexpr size_t kLargest = 1024;  // about 130 bytes are usual
  char begin[kBegin.size()];
  return size <= kLargest && ::pread(fd, begin, sizeof begin, 0) == static_cast<ssize_t>(sizeof begin) &&
         std::string_view(begin, sizeof begin) == kBegin;
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path) {
  // O_NONBLOCK: opening a named pipe would otherwise wait for somebody to write into it.
  fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd_ < 0) fail_file(path, std::string("cannot open: ") + std::strerror(errno));
  const auto fail = [this](const std::string& what) {
    ::close(fd_);  // no destructor runs
    fail_file(path_, what);
  };
  struct stat info {};
  if (::fstat(fd_, &info) != 0 || !S_ISREG(info.st_mode))
    fail(S_ISDIR(info.st_mode) ? "is a folder, not a regular file" : "is not a regular file");
  size_ = static_cast<size_t>(info.st_size);
  if (size_ == 0) return;
  if (is_pointer(fd_, size_)) {
    fail(
        "is a pointer of git-lfs, not the content; to fetch that: git lfs pull in its folder, or ashlar pull "
        "ORG/MODEL");
  }
  void* mapped = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd_, 0);
  if (mapped == MAP_FAILED) fail(std::string("cannot map: ") + std::strerror(errno));
  data_ = static_cast<const std::byte*>(mapped);
  watch_ = watch_file(data_, size_);
}

MappedFile::~MappedFile() {
  if (fd_ >= 0) ::close(fd_);
  if (data_ == nullptr) return;
  end_watch(watch_);
  ::munmap(const_cast<std::byte*>(data_), size_);
}

// After a new end the rest of its page reads as zeros without a fault: the size shows it.
void MappedFile::check_whole() const {
  if (data_ == nullptr) return;
  struct stat info {};
  const bool known = ::fstat(fd_, &info) == 0;
  const bool shorter = known && static_cast<size_t>(info.st_size) < size_;
  if (!shorter && !was_cut(*watch_)) return;
  fail_file(path_, "had " + std::to_string(size_) + " bytes when it was opened and " +
                       (shorter ? "has " + std::to_string(info.st_size) + " now" : "could not be read to its end") +
                       "; let whatever writes it end, or fetch it again");
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      watch_(std::exchange(other.watch_, nullptr)) {}

bool file_exists(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

std::string read_text_file(const std::filesystem::path& path, size_t limit) {
  const MappedFile file(path);
  if (file.bytes().size() > limit) {
    fail_file(path,
              "has " + std::to_string(file.bytes().size()) + " bytes; at most " + std::to_string(limit) + " are read");
  }
  std::string text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  file.check_whole();
  return text;
}

}  // namespace ashlar
