// SPDX-License-Identifier: Apache-2.0
#pragma once
// A place for the files of one test, so that nothing stays behind and no two runs meet.

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

namespace ashlar {

/// A fresh folder that goes away with its content.
class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "ashlar-test-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("cannot make a folder like " + pattern);
    path_ = pattern;
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::filesystem::path& name) const { return path_ / name; }

  std::filesystem::path write(const std::string& name, const std::string& bytes) const {
    // A new file each time: some file systems flush to disk when one is truncated and rewritten.
    std::filesystem::remove(path_ / name);
    std::ofstream file(path_ / name, std::ios::binary | std::ios::trunc);
    file << bytes;
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace ashlar
