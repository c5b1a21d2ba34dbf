// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>

namespace ashlar::hub {

/// Keeps other processes, and other threads, from writing the same file: flock on a file of its own, as the hub's own
/// tools take it. The kernel lets go when the process ends, however it ends.
class FileLock {
 public:
  enum class Kind { kExclusive, kShared };
  /// Waits until the lock is free; `stopped` is asked ten times a second meanwhile and ends the waiting. Makes the
  /// folders on the way. Throws Error("hub", ...) if the file cannot be made or locked.
  FileLock(const std::filesystem::path& path, const std::function<bool()>& stopped, Kind kind = Kind::kExclusive);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  /// False if the waiting was stopped.
  bool held() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

/// Whether a process holds the lock at this moment, or may, where the file cannot be opened; false if there
/// is no such file.
bool is_locked(const std::filesystem::path& path);

}  // namespace ashlar::hub
