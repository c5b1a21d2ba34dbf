// SPDX-License-Identifier: Apache-2.0
#include "io/durable_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
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

constexpr int kMaxUncommitted = 100;

[[noreturn]] void refuse(const fs::path& path, const std::string& what) {
  throw Error("file", path.string() + ": " + what);
}
[[noreturn]] void fail(const fs::path& path, const std::string& what, int why) {
  refuse(path, what + ": " + std::strerror(why));
}

// Of the folder itself: a link that stands in its place belongs to somebody else.
int open_folder(const fs::path& path) { return open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC); }

// "a/b/" names the folder that "a/b" does, and "a/b/.previous" would be one in it.
fs::path without_slash(const fs::path& path) {
  const fs::path plain = path.lexically_normal();
  return plain.has_filename() ? plain : plain.parent_path();
}

fs::path next_to(const fs::path& path, const std::string& before, const std::string& after) {
  const fs::path plain = without_slash(path);
  return plain.parent_path() / (before + plain.filename().string() + after);
}

fs::file_type kind_of(const fs::path& path) {
  std::error_code failed;
  return fs::symlink_status(path, failed).type();
}

// Both names stand for a folder at every moment, of which a rename cannot give one up for the other.
bool exchange(const fs::path& a, const fs::path& b) {
  return renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0;
}
// Only to a name that is free.
bool move_to(const fs::path& from, const fs::path& to) {
  return renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0;
}

bool is_replaced(const fs::path& folder) {
  return kind_of(folder) == fs::file_type::directory &&
         kind_of(folder / DurableFolder::kMark) == fs::file_type::regular;
}

// So that the next one may take its place.
bool mark(const fs::path& folder) {
  const int file = open((folder / DurableFolder::kMark).c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (file < 0) return false;
  close(file);
  return true;
}

bool is_same(int opened, const fs::path& path) {
  struct stat a {
  }, b{};
  return fstat(opened, &a) == 0 && lstat(path.c_str(), &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

// To a name that no later one clears; where there is none it stays. Returns where it is.
fs::path set_aside(const fs::path& fresh, const fs::path& path) {
  for (int n = 1; n <= kMaxUncommitted; ++n) {
    const fs::path aside = next_to(path, "", n == 1 ? ".uncommitted" : ".uncommitted-" + std::to_string(n));
    if (move_to(fresh, aside)) return aside;
    if (errno != EEXIST) break;
  }
  return fresh;
}

// Whether two folders in this one can be exchanged, which not every file system does; 0 or why not.
int cannot_exchange(const fs::path& folder) {
  const fs::path a = folder / "a", b = folder / "b";
  std::error_code failed;
  fs::create_directory(a, failed);
  if (!failed) fs::create_directory(b, failed);
  const int why = failed ? failed.value() : exchange(a, b) ? 0 : errno;
  fs::remove(a, failed);
  fs::remove(b, failed);
  return why;
}

}  // namespace

DurableFolder::DurableFolder(const fs::path& path)
    : path_(without_slash(path)), fresh_(next_to(path, ".", ".ashlar-new")) {
  const std::string name = path_.filename().string();
  if (name.empty() || name == "." || name == "..") {
    refuse(path, "cannot be replaced as a whole; expected a folder by its name");
  }
  check_place();
  std::error_code failed;
  if (path_.has_parent_path()) fs::create_directories(path_.parent_path(), failed);
  if (!failed) fs::create_directory(fresh_, failed);
  if (failed) fail(fresh_, "cannot be made", failed.value());
  lock_ = open_folder(fresh_);
  if (lock_ < 0) fail(fresh_, "cannot be opened", errno);
  const auto give_up = [&](const std::string& what, int why) {
    close(std::exchange(lock_, -1));
    fail(fresh_, what, why);
  };
  if (flock(lock_, LOCK_EX | LOCK_NB) != 0 || !is_same(lock_, fresh_)) {
    close(std::exchange(lock_, -1));
    refuse(fresh_, "another program is writing it; wait for its end");
  }
  for (const auto& entry : fs::directory_iterator(fresh_, failed)) {
    if (!failed) fs::remove_all(entry.path(), failed);
  }
  if (failed) give_up("cannot be emptied", failed.value());
  if (kind_of(path_) == fs::file_type::not_found) return;
  struct stat here {
  }, there{};
  int why = fstat(lock_, &here) != 0 || lstat(path_.c_str(), &there) != 0 ? errno : 0;
  if (why == 0 && here.st_dev != there.st_dev) why = EXDEV;
  if (why == 0) why = cannot_exchange(fresh_);
  if (why == 0) return;
  fs::remove(fresh_, failed);
  give_up("cannot be exchanged with " + path_.string() + "; expected a folder that is new, or on another file system",
          why);
}

DurableFolder::~DurableFolder() {
  if (lock_ < 0) return;
  std::error_code ignored;
  fs::remove_all(fresh_, ignored);
  close(lock_);
}

fs::path DurableFolder::previous(const fs::path& path) { return next_to(path, "", ".previous"); }

fs::path DurableFolder::rejected(const fs::path& path) { return next_to(path, "", ".rejected"); }

// Marked before it moves, so that a kill at any moment leaves nothing in the way of the next commit.
void DurableFolder::undo(const fs::path& path) {
  const fs::path plain = without_slash(path), last = previous(path), aside = rejected(path);
  std::error_code failed;
  if (is_replaced(aside)) fs::remove_all(aside, failed);
  if (kind_of(aside) != fs::file_type::not_found) {
    refuse(aside, "is the name under which " + plain.string() + " would be set aside; rename it");
  }
  if (!mark(plain)) fail(plain, "cannot be set aside", errno);
  if (!is_replaced(last)) {
    if (!move_to(plain, aside)) fail(plain, "cannot be set aside", errno);
    return;
  }
  if (!exchange(last, plain)) fail(plain, "cannot be set aside", errno);
  fs::remove(plain / kMark, failed);
  move_to(last, aside);  // where that fails, the next commit removes it
}

void DurableFolder::check_place() const {
  const fs::file_type kind = kind_of(path_);
  if (kind == fs::file_type::symlink) refuse(path_, "is a symbolic link; expected the folder itself, or a new one");
  if (kind != fs::file_type::not_found && kind != fs::file_type::directory) {
    refuse(path_, "is a file; expected a folder, or a new one");
  }
  const fs::path last = previous(path_);
  if (kind_of(last) == fs::file_type::not_found || is_replaced(last)) return;
  refuse(last, "is the name under which the folder that is replaced is kept, and was not made so; rename it");
}

void DurableFolder::commit() {
  fsync(lock_);
  const int old = open_folder(path_);  // locked, since it has the fresh one's name for a moment
  const bool replaces = old >= 0;
  struct stat status {};
  if (replaces && fstat(old, &status) == 0) fchmod(lock_, status.st_mode & 07777);
  if (replaces) flock(old, LOCK_EX | LOCK_NB);
  const bool done = replaces ? exchange(fresh_, path_) : move_to(fresh_, path_);
  const int why = errno;
  close(std::exchange(lock_, -1));
  if (done && replaces) keep_replaced();
  if (replaces) close(old);
  if (!done) fail(path_, "cannot be replaced, and the new one is " + set_aside(fresh_, path_).string(), why);
  const int folder = open(path_.has_parent_path() ? path_.parent_path().c_str() : ".", O_RDONLY | O_CLOEXEC);
  if (folder < 0) return;
  fsync(folder);
  close(folder);
}

// What was at the path has the fresh one's name now.
void DurableFolder::keep_replaced() const {
  std::error_code ignored;
  if (fs::is_empty(fresh_, ignored)) {
    fs::remove(fresh_, ignored);
    return;
  }
  mark(fresh_);
  const fs::path last = previous(path_);
  if (move_to(fresh_, last)) return;
  // A whole one is there at every moment, and then what was replaced twice goes.
  if (is_replaced(last) && exchange(fresh_, last)) {
    fs::remove_all(fresh_, ignored);
  } else {
    set_aside(fresh_, path_);
  }
}

}  // namespace ashlar
