// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>

#include "hub/digest.h"
#include "hub/names.h"

namespace ashlar::hub {

/// A file on its way in: BLOB.incomplete, hashed as it grows, renamed to BLOB when it is whole and right. The caller
/// holds the blob's lock. All functions throw Error("hub", ...) in words where the disk refuses.
class PartialFile {
 public:
  /// Opens or makes it and takes in what an earlier attempt left; more than `size` bytes are thrown away.
  PartialFile(std::filesystem::path blob, Etag etag, int64_t size);
  ~PartialFile();
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  int64_t have() const { return have_; }
  int64_t size() const { return size_; }
  void append(std::string_view bytes);
  /// Throws away what is there.
  void restart();
  /// All `size` bytes are there: checks the hash, if there is one, and puts the file in place. False if the hash is
  /// another one; the bytes are then thrown away.
  bool finish();

 private:
  void begin_digest();
  void hash_what_is_there();

  std::filesystem::path blob_, path_;
  Etag etag_;
  int64_t size_;
  int64_t have_ = 0;
  int fd_ = -1;
  std::unique_ptr<Digest> digest_;  // null: the server has none
};

}  // namespace ashlar::hub
