#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

namespace ashlar {

/// A file mapped read-only for the object's lifetime.
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

 private:
  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

/// False also where the answer cannot be had: no permission, a name too long.
bool file_exists(const std::filesystem::path& path);

/// The whole file as a string. Throws Error("file", ...) if it cannot be read or is larger than `limit` bytes.
std::string read_text_file(const std::filesystem::path& path, size_t limit);

}  // namespace ashlar
