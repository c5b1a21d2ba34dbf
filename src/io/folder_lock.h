// SPDX-License-Identifier: Apache-2.0
#pragma once
// Of several programs that would write into a folder at the same time, one does.

#include <filesystem>

namespace ashlar {

/// A folder that this object alone writes into, as far as others ask, too. It is made where there is none, and goes
/// away again where it is empty in the end. A kill ends the lock and leaves no file.
class FolderLock {
 public:
  /// Throws Error("file", ...) if the folder cannot be made or opened, or if another program holds it. File systems
  /// that have no locks are as good as they are.
  explicit FolderLock(std::filesystem::path folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  std::filesystem::path folder_;
  bool made_ = false;
  int fd_ = -1;
};

}  // namespace ashlar
