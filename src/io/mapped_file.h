// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

namespace ashlar {

class FileWatch;

/// A file mapped read-only for the object's lifetime. If the file is cut short meanwhile, or its disk fails, what is
/// gone reads as zeros instead of ending the program: who has read it asks check_whole() before using what was read.
class MappedFile {
 public:
  /// Throws Error("file", ...) if the path cannot be opened, is not a regular file or cannot be mapped.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  MappedFile& operator=(MappedFile&&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::filesystem::path& path() const { return path_; }
  /// Throws Error("file", ...) if something that was read from bytes() was not there any more.
  void check_whole() const;

 private:
  std::filesystem::path path_;
  int fd_ = -1;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  FileWatch* watch_ = nullptr;
};

/// False also where the answer cannot be had: no permission, a name too long.
bool file_exists(const std::filesystem::path& path);

/// The whole file as a string. Throws Error("file", ...) if it cannot be read or is larger than `limit` bytes.
std::string read_text_file(const std::filesystem::path& path, size_t limit);

}  // namespace ashlar
