// SPDX-License-Identifier: Apache-2.0
#include "io/durable_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include "base/error.h"

namespace ashlar {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& path, const std::string& what, int why) {
  throw Error("file", path.string() + ": " + what + ": " + std::strerror(why));
}

int open_folder(const fs::path& path) { return open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }

// "a/b/" names the folder that "a/b" does, and "a/b/.new" would be one in it.
fs::path without_slash(const fs::path& path) {
  const fs::path plain = path.lexically_normal();
  return plain.has_filename() ? plain : plain.parent_path();
}

fs::path next_to(const fs::path& path, const char* ending) { return without_slash(path).string() + ending; }

// Both names stand for a folder at every moment, of which a rename cannot give one up for the other.
bool exchange(const fs::path& a, const fs::path& b) {
  return renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0;
}

}  // namespace

DurableFolder::DurableFolder(const fs::path& path) : path_(without_slash(path)), fresh_(next_to(path, ".new")) {
  std::error_code failed;
  if (path_.has_parent_path()) fs::create_directories(path_.parent_path(), failed);
  if (!failed) fs::create_directory(fresh_, failed);
  if (failed) fail(fresh_, "cannot be made", failed.value());
  lock_ = open_folder(fresh_);
  if (lock_ < 0) fail(fresh_, "cannot be opened", errno);
  if (flock(lock_, LOCK_EX | LOCK_NB) != 0) {
    const int why = errno;
    close(std::exchange(lock_, -1));
    if (why == EWOULDBLOCK) throw Error("file", fresh_.string() + ": another program is writing it; wait for its end");
    fail(fresh_, "cannot be locked", why);
  }
  for (const auto& entry : fs::directory_iterator(fresh_, failed)) {
    if (!failed) fs::remove_all(entry.path(), failed);
  }
  if (!failed) return;
  close(std::exchange(lock_, -1));
  fail(fresh_, "cannot be emptied", failed.value());
}

DurableFolder::~DurableFolder() {
  if (lock_ < 0) return;
  std::error_code ignored;
  fs::remove_all(fresh_, ignored);
  close(lock_);
}

fs::path DurableFolder::previous(const fs::path& path) { return next_to(path, ".previous"); }

void DurableFolder::commit() {
  fsync(lock_);
  std::error_code failed;
  const bool replaces = fs::exists(path_, failed);
  const bool done = replaces ? exchange(fresh_, path_) : rename(fresh_.c_str(), path_.c_str()) == 0;
  const int why = errno;
  close(std::exchange(lock_, -1));
  if (!done) fail(path_, "cannot be replaced, and " + fresh_.string() + " stays", why);
  if (replaces) {
    const fs::path last = previous(path_);
    const bool had_one = fs::exists(last, failed);
    // Where there was one already a whole one is there at every moment, and then what was replaced twice goes.
    if (fs::is_empty(fresh_, failed) || (had_one && exchange(fresh_, last))) {
      fs::remove_all(fresh_, failed);
    } else if (!had_one) {
      fs::rename(fresh_, last, failed);
    }
  }
  const int folder = open_folder(path_.has_parent_path() ? path_.parent_path() : fs::path("."));
  if (folder < 0) return;
  fsync(folder);
  close(folder);
}

}  // namespace ashlar
