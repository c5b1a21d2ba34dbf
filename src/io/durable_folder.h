// SPDX-License-Identifier: Apache-2.0
#pragma once
// Folders that are replaced as a whole: whenever the program or the machine stops, the old or the new one is there.

#include <filesystem>

namespace ashlar {

/// A new, empty folder next to `path`, which takes the place of `path` at commit(). Without that it goes away, and what
/// was at `path` stays. One writer at a time.
class DurableFolder {
 public:
  /// Makes `path`.new, without what a kill may have left there. Throws Error("file", ...) if it cannot be made, or
  /// another program is writing it.
  explicit DurableFolder(const std::filesystem::path& path);
  ~DurableFolder();
  DurableFolder(const DurableFolder&) = delete;
  DurableFolder& operator=(const DurableFolder&) = delete;

  /// Where to write. Files in it that are to last are brought to the disk by those who write them (durable_file.h).
  const std::filesystem::path& fresh() const { return fresh_; }
  /// Puts it at `path`. What was there becomes `path`.previous, and what was there before that goes. Throws
  /// Error("file", ...) if that cannot be; the new folder then stays at fresh().
  void commit();

  /// Where commit() leaves what was at `path`.
  static std::filesystem::path previous(const std::filesystem::path& path);

 private:
  std::filesystem::path path_, fresh_;
  int lock_ = -1;  // the fresh folder itself, locked
};

}  // namespace ashlar
