// SPDX-License-Identifier: Apache-2.0
#include "hub/cache.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <fstream>
#include <system_error>

#include "base/error.h"
#include "hub/file_lock.h"
#include "io/mapped_file.h"

namespace ashlar::hub {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxRefBytes = 256;

// A name that no other process or thread uses, next to the file that is to be made.
fs::path sibling(const fs::path& path) {
  static std::atomic<unsigned> count{0};
  return path.parent_path() / (".tmp-" + std::to_string(getpid()) + "-" + std::to_string(count.fetch_add(1)));
}

void put_in_place(const fs::path& made, const fs::path& path) {
  std::error_code failed;
  fs::rename(made, path, failed);
  if (!failed) return;
  std::error_code ignored;
  fs::remove(made, ignored);
  throw_system_error(path, "cannot be put in place", failed.value());
}

// Makes the folders of `relative` under `root` one by one.
void make_real_folders(const fs::path& root, const fs::path& relative) {
  make_folders(root);
  fs::path folder = root;
  for (const fs::path& part : relative) {
    folder /= part;
    std::error_code failed;
    const fs::file_status status = fs::symlink_status(folder, failed);
    if (fs::is_directory(status)) continue;
    if (fs::exists(status)) {
      throw Error("hub", folder.string() + " is no folder, where one is needed; remove it and pull again");
    }
    make_folders(folder);
  }
}

}  // namespace

void throw_system_error(const fs::path& path, const std::string& what, int reason) {
  std::string text = path.string() + " " + what + ": " + std::system_category().message(reason);
  if (reason == ENOSPC || reason == EDQUOT)
    text += "; free some space, or set HF_HUB_CACHE to a folder on another disk";
  if (reason == EACCES || reason == EPERM || reason == EROFS) {
    text += "; set HF_HUB_CACHE to a folder that you may write to";
  }
  throw Error("hub", text);
}

void make_folders(const fs::path& folder) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed && !fs::is_directory(folder, failed)) throw_system_error(folder, "cannot be made", failed.value());
}

RepoCache::RepoCache(fs::path cache, const std::string& repo) {
  const std::string name = folder_name_of(repo);
  folder_ = cache / name;
  locks_ = cache / ".locks" / name;
}

std::optional<std::string> RepoCache::commit_of(const std::string& revision) const {
  if (is_commit(revision)) return revision;
  const fs::path ref = folder_ / "refs" / revision;
  std::error_code failed;
  if (!fs::is_regular_file(ref, failed)) return std::nullopt;
  std::string text = read_text_file(ref, kMaxRefBytes);
  text.erase(text.find_last_not_of(" \r\n") + 1);
  if (!is_commit(text)) return std::nullopt;
  return text;
}

std::unique_ptr<FileLock> RepoCache::lock_for_removal() const {
  auto lock = std::make_unique<FileLock>(pull_lock(), [] { return true; });
  if (!lock->held()) return nullptr;
  std::error_code failed;
  for (fs::directory_iterator at(locks_, failed), end; !failed && at != end; at.increment(failed)) {
    const fs::path& path = at->path();
    if (path != pull_lock() && path.extension() == ".lock" && is_locked(path)) return nullptr;
  }
  return lock;
}

void RepoCache::write_ref(const std::string& revision, const std::string& commit) const {
  if (is_commit(revision)) return;
  const fs::path ref = folder_ / "refs" / revision;
  make_real_folders(folder_ / "refs", fs::path(revision).parent_path());
  const fs::path made = sibling(ref);
  std::ofstream file(made, std::ios::binary);
  file << commit;
  file.close();
  if (!file) throw_system_error(made, "cannot be written", errno);
  put_in_place(made, ref);
}

void RepoCache::link(const std::string& commit, const std::string& file, const Etag& etag) const {
  const fs::path relative = fs::path(file);
  make_real_folders(folder_ / "snapshots", fs::path(commit) / relative.parent_path());
  const fs::path path = snapshot(commit) / relative;
  fs::path target = fs::path("..") / "..";
  for (const fs::path& part : relative.parent_path()) {
    if (!part.empty()) target /= "..";
  }
  target /= fs::path("blobs") / etag.hex;
  std::error_code failed;
  if (fs::is_directory(fs::symlink_status(path, failed))) {
    throw Error("hub", path.string() + " is a folder, where a file is needed; remove it and pull again");
  }
  if (fs::read_symlink(path, failed) == target && !failed) return;
  const fs::path made = sibling(path);
  fs::create_symlink(target, made, failed);
  if (failed) throw_system_error(path, "cannot be linked to its content", failed.value());
  put_in_place(made, path);
}

}  // namespace ashlar::hub
