// SPDX-License-Identifier: Apache-2.0
#pragma once
// The cache's folders, shared with the hub's own tools:
//   models--ORG--MODEL/blobs/ETAG                     contents, each once
//   models--ORG--MODEL/snapshots/COMMIT/FILE          -> ../../blobs/ETAG
//   models--ORG--MODEL/refs/REVISION                  the commit a branch or tag stood at when it was last pulled
//   .locks/models--ORG--MODEL/ETAG.lock
//   .locks/models--ORG--MODEL/pull.lock               ours: held, by several at once, from a pull's begin to its end

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hub/file_lock.h"
#include "hub/names.h"

namespace ashlar::hub {

/// Makes a folder and those above it. Throws Error("hub", ...) in words.
void make_folders(const std::filesystem::path& folder);
/// Error("hub", "PATH WHAT: REASON") with advice where the disk is full or not ours.
[[noreturn]] void throw_system_error(const std::filesystem::path& path, const std::string& what, int reason);

/// The folders of one repository. All names given to it were checked by names.h.
class RepoCache {
 public:
  RepoCache(std::filesystem::path cache, const std::string& repo);

  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path blob(const Etag& etag) const { return folder_ / "blobs" / etag.hex; }
  std::filesystem::path lock(const Etag& etag) const { return locks_ / (etag.hex + ".lock"); }
  std::filesystem::path pull_lock() const { return locks_ / "pull.lock"; }
  /// Keeps pulls away while it is removed; null if some process is bringing files of it right now: ours, or the hub's
  /// own tools, while they fetch one. Throws Error("hub", ...) where nothing can be locked.
  std::unique_ptr<FileLock> lock_for_removal() const;
  std::filesystem::path snapshot(const std::string& commit) const { return folder_ / "snapshots" / commit; }

  /// The commit that a revision is known to mean; a full commit means itself.
  std::optional<std::string> commit_of(const std::string& revision) const;
  /// Remembers it. Throws Error("hub", ...).
  void write_ref(const std::string& revision, const std::string& commit) const;
  /// Makes snapshots/COMMIT/FILE point at the blob, in one step. Throws Error("hub", ...), also if a part of the path
  /// is no folder of its own: a link there would lead out of the cache.
  void link(const std::string& commit, const std::string& file, const Etag& etag) const;

 private:
  std::filesystem::path folder_, locks_;
};

}  // namespace ashlar::hub
