// SPDX-License-Identifier: Apache-2.0
#pragma once
// Models of a Hugging Face compatible hub in the local cache.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "hub/names.h"
#include "hub/remote.h"
#include "hub/settings.h"
#include "hub/snapshot.h"

namespace ashlar::hub {

/// How far a pull is. No field ever falls within one pull.
struct PullProgress {
  int64_t bytes_done = 0;   ///< there by now, from the network or earlier
  int64_t bytes_total = 0;  ///< 0 until all files are known
  int64_t fetched = 0;      ///< over the network
  int files_done = 0, files_total = 0;
};

struct PullOptions {
  Settings settings;
  Role role = Role::kModel;  ///< offline: what has to be there
  bool all_files = false;    ///< not only what an engine needs
  int parallel = 4;          ///< files at a time
  RetryPolicy retry;
  std::function<bool()> stopped;                      ///< asked from several threads; true ends the pull
  std::function<void(const PullProgress&)> progress;  ///< called from several threads, one at a time
};

struct PullResult {
  std::filesystem::path snapshot;  ///< the folder to load
  std::string commit;
  int files = 0;
  int64_t bytes = 0;    ///< of all files
  int64_t fetched = 0;  ///< of them over the network
  int unchecked = 0;    ///< files of which the server has no digest: only their lengths were checked
};

/// Brings the files of a revision into the cache, each checked by its hash, or by its length where a mirror has none;
/// what is there already by name and length is neither fetched nor read again, and what an interrupted pull left is
/// gone on with. Several processes may pull the same at once. Offline it answers from the cache. The revision's name
/// points at the commit only after all files are there. Throws Error("hub", ...), offline with the names of the files
/// that are missing.
PullResult pull(const RepoRef& ref, const PullOptions& options);

/// A revision in the cache.
struct CachedSnapshot {
  std::filesystem::path folder;      ///< empty: the revision is not known here
  std::vector<std::string> missing;  ///< what it lacks to be loaded (missing_files)
  bool whole() const { return !folder.empty() && missing.empty(); }
  /// "org/model is not in CACHE", or what it lacks there.
  std::string warning(const RepoRef& ref, const Settings& settings) const;
};

/// What of a revision is in the cache, whole or not; asks no network.
CachedSnapshot look_up(const RepoRef& ref, const Settings& settings, Role role);
/// The snapshot of a revision in the cache if it is whole; asks no network.
std::optional<std::filesystem::path> find_cached(const RepoRef& ref, const Settings& settings, Role role);

/// The folder of a model: from the cache if it is there whole, else pulled. Throws Error("hub", ...).
std::filesystem::path ensure(const RepoRef& ref, const PullOptions& options);

}  // namespace ashlar::hub
