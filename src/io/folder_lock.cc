// SPDX-License-Identifier: Apache-2.0
#include "io/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "base/error.h"

namespace ashlar {

FolderLock::FolderLock(std::filesystem::path folder) : folder_(std::move(folder)) {
  std::error_code failed;
  made_ = std::filesystem::create_directories(folder_, failed);
  if (failed) throw Error("file", folder_.string() + ": cannot be made: " + failed.message());
  fd_ = open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd_ < 0) throw Error("file", folder_.string() + ": cannot be opened: " + std::strerror(errno));
  if (flock(fd_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  close(fd_);
  throw Error("file", folder_.string() + ": another program is writing into it; wait for its end");
}

FolderLock::~FolderLock() {
  std::error_code ignored;
  if (made_) std::filesystem::remove(folder_, ignored);  // which leaves a folder that is not empty
  close(fd_);
}

}  // namespace ashlar
