// SPDX-License-Identifier: Apache-2.0
#pragma once
// Files that are there whole or not at all, whenever the program or the machine stops.

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace ashlar {

/// What the name of a file has at its end, and a number each of a process and of its files, until commit().
inline constexpr std::string_view kUnfinished = ".new-";

/// A new file under a temporary name next to `path`, which takes the place of `path` at commit(). Without that it goes
/// away, and what was at `path` stays. Of several who write at once the last to commit stays, whole.
class DurableFile {
 public:
  struct Options {
    unsigned mode = 0666;  ///< permissions, less what the process's mask forbids
    bool sync = true;      ///< false: the file may be lost or torn if the machine stops soon after, not the program
  };
  /// Throws Error("file", ...) if the file cannot be made.
  explicit DurableFile(std::filesystem::path path) : DurableFile(std::move(path), Options{}) {}
  DurableFile(std::filesystem::path path, Options options);
  ~DurableFile();
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;

  /// Appends. Throws Error("file", ...) if the disk is full or the like.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  /// Brings the content to the disk, then the name (with `sync`, otherwise the name alone). Throws Error("file", ...).
  void commit();

 private:
  [[noreturn]] void fail(const char* what) const;

  std::filesystem::path path_;
  std::string fresh_;
  bool sync_;
  int fd_ = -1;
};

/// Whether `name` is what a file named `of` has before its commit().
bool is_unfinished(std::string_view name, std::string_view of);

/// Removes what writers of `path` left that were killed before commit(). No one may be writing it.
void remove_unfinished(const std::filesystem::path& path);

/// The same for all files of a folder whose names `is_of` takes, but for what a process of this machine writes that
/// still runs. This process may be writing none of them.
void remove_abandoned(const std::filesystem::path& folder, const std::function<bool(std::string_view)>& is_of);

/// The whole content in one go.
void write_durably(const std::filesystem::path& path, std::string_view content);

}  // namespace ashlar
