// SPDX-License-Identifier: Apache-2.0
#pragma once
// Folders that are replaced as a whole: whenever the program or the machine stops, the old or the new one is there.

#include <filesystem>

namespace ashlar {

/// A new, empty folder next to `path`, which takes the place of `path` at commit(). Without that it goes away, and what
/// was at `path` stays. One writer at a time. Nothing that others made is removed.
class DurableFolder {
 public:
  /// Makes a hidden folder, or empties what a kill left of it. Throws Error("file", ...) if it cannot be made or
  /// another program is writing it, and for all that commit() would fail at: a path that is no folder or a symbolic
  /// link, a previous(path) that another made, a file system that cannot exchange two folders.
  explicit DurableFolder(const std::filesystem::path& path);
  ~DurableFolder();
  DurableFolder(const DurableFolder&) = delete;
  DurableFolder& operator=(const DurableFolder&) = delete;

  /// Where to write. Files in it that are to last are brought to the disk by those who write them (durable_file.h).
  const std::filesystem::path& fresh() const { return fresh_; }
  /// Puts it at `path`, as readable as what was there. That becomes `path`.previous with kMark in it, and what was
  /// there before that goes. Throws Error("file", ...) if that cannot be; the new folder then stays as
  /// `path`.uncommitted.
  void commit();

  /// Undoes a commit(): what it replaced is at `path` again, or nothing is, and what it put there at rejected(path),
  /// whose place it takes if an undo() made that. Throws Error("file", ...) if that cannot be; then nothing has
  /// changed.
  static void undo(const std::filesystem::path& path);

  /// Where undo() leaves what was at `path`.
  static std::filesystem::path rejected(const std::filesystem::path& path);
  /// Where commit() leaves what was at `path`.
  static std::filesystem::path previous(const std::filesystem::path& path);
  /// The file that says that the next commit() or undo() may remove the folder that it is in.
  static constexpr const char* kMark = ".ashlar-replaced";

 private:
  void check_place() const;
  void keep_replaced() const;

  std::filesystem::path path_, fresh_;
  int lock_ = -1;  // the fresh folder itself, locked
};

}  // namespace ashlar
