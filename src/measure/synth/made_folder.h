// SPDX-License-Identifier: Apache-2.0
#pragma once
// A model's folder that is made anew, or in place of the model that it holds.

#include <cstdint>
#include <filesystem>
#include <vector>

namespace ashlar {

/// Files are written to a folder within it, and take their places at commit(). Without that they go away, and with them
/// the folder, if it is new.
class MadeFolder {
 public:
  /// Throws Error("synth", ...) if it is a file, cannot be made, or has files in it and `force` is not set.
  MadeFolder(std::filesystem::path path, bool force);
  ~MadeFolder();
  MadeFolder(const MadeFolder&) = delete;
  MadeFolder& operator=(const MadeFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// Where to write.
  const std::filesystem::path& fresh() const { return fresh_; }
  /// Of the files that commit() removes: weights, and what says how to read the model and its text.
  int64_t replaced_bytes() const;
  /// Sooner than commit() would.
  void remove_replaced() const;
  void commit() const;

 private:
  std::vector<std::filesystem::path> replaced() const;

  std::filesystem::path path_, fresh_;
  bool is_new_;
};

}  // namespace ashlar
