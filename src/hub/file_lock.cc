// SPDX-License-Identifier: Apache-2.0
#include "hub/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "base/error.h"
#include "hub/cache.h"

namespace ashlar::hub {
namespace {

constexpr auto kAskAgain = std::chrono::milliseconds(100);

// The last holder may have removed the file: a lock on it would then exclude no one.
bool is_still_there(int fd, const std::filesystem::path& path) {
  struct stat ours {
  }, named{};
  return fstat(fd, &ours) == 0 && stat(path.c_str(), &named) == 0 && ours.st_ino == named.st_ino &&
         ours.st_dev == named.st_dev;
}

}  // namespace

FileLock::FileLock(const std::filesystem::path& path, const std::function<bool()>& stopped, Kind kind) {
  make_folders(path.parent_path());
  while (true) {
    fd_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd_ < 0) throw_system_error(path, "cannot be made", errno);
    while (flock(fd_, (kind == Kind::kShared ? LOCK_SH : LOCK_EX) | LOCK_NB) != 0) {
      const int reason = errno;
      if (reason != EWOULDBLOCK && reason != EINTR) {
        close(fd_);
        throw_system_error(path, "cannot be locked", reason);
      }
      if (stopped && stopped()) {
        close(fd_);
        fd_ = -1;
        return;
      }
      std::this_thread::sleep_for(kAskAgain);
    }
    if (is_still_there(fd_, path)) return;
    close(fd_);
  }
}

FileLock::~FileLock() {
  if (fd_ >= 0) close(fd_);
}

bool is_locked(const std::filesystem::path& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return errno == EACCES;  // another user's
  const bool locked = flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  close(fd);
  return locked;
}

}  // namespace ashlar::hub
