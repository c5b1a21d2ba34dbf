// SPDX-License-Identifier: Apache-2.0
#include "hub/partial_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "base/error.h"
#include "hub/cache.h"

namespace ashlar::hub {

PartialFile::PartialFile(std::filesystem::path blob, Etag etag, int64_t size)
    : blob_(std::move(blob)), path_(blob_.string() + ".incomplete"), etag_(std::move(etag)), size_(size) {
  make_folders(blob_.parent_path());
  fd_ = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (fd_ < 0) throw_system_error(path_, "cannot be opened for writing", errno);
  try {
    struct stat status {};
    if (fstat(fd_, &status) != 0) throw_system_error(path_, "cannot be read", errno);
    if (status.st_size > size_) {
      restart();
    } else {
      hash_what_is_there();
    }
  } catch (...) {
    close(fd_);
    throw;
  }
}

PartialFile::~PartialFile() {
  if (fd_ >= 0) close(fd_);
}

void PartialFile::begin_digest() {
  if (etag_.kind != EtagKind::kNone) digest_ = std::make_unique<Digest>(etag_.kind, size_);
}

void PartialFile::hash_what_is_there() {
  begin_digest();
  have_ = 0;
  std::vector<char> buffer(size_t{1} << 20);
  while (true) {
    const ssize_t n = read(fd_, buffer.data(), buffer.size());
    if (n == 0) return;
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw_system_error(path_, "cannot be read", errno);
    if (digest_) digest_->update({buffer.data(), static_cast<size_t>(n)});
    have_ += n;
  }
}

void PartialFile::append(std::string_view bytes) {
  if (digest_) digest_->update(bytes);
  have_ += static_cast<int64_t>(bytes.size());
  while (!bytes.empty()) {
    const ssize_t n = write(fd_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw_system_error(path_, "cannot be written", errno);
    bytes.remove_prefix(static_cast<size_t>(n));
  }
}

void PartialFile::restart() {
  if (ftruncate(fd_, 0) != 0 || lseek(fd_, 0, SEEK_SET) != 0) throw_system_error(path_, "cannot be emptied", errno);
  have_ = 0;
  begin_digest();
}

bool PartialFile::finish() {
  if (digest_ && digest_->finish() != etag_.hex) {
    restart();
    return false;
  }
  // A name of a content must never stand for half of it, not even after a power cut.
  if (fsync(fd_) != 0) throw_system_error(path_, "cannot be written", errno);
  if (rename(path_.c_str(), blob_.c_str()) != 0) throw_system_error(blob_, "cannot be put in place", errno);
  return true;
}

}  // namespace ashlar::hub
