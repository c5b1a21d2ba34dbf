// SPDX-License-Identifier: Apache-2.0
#pragma once
// Weights as a device packed them, in a file for the next start: pieces of bytes by a key that says all about them. The
// file is made again whenever anything about it is wrong, so nothing in it is believed without its checksum.
//
// Layout, little-endian: "ASHLARPK", the version as u64, zeros up to 64 bytes; the pieces, each from a multiple of 64
// on and zeros between them; the directory, for each piece its key, offset, bytes and checksum as u64, in the order of
// the pieces and without gaps; at the end the directory's offset, the number of pieces, the directory's checksum and
// that of these three numbers, as u64. Checksums are content_hash.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "io/durable_file.h"
#include "io/mapped_file.h"

namespace ashlar {

/// Where pieces begin in the file and so, mapped, in memory: cache lines.
inline constexpr uint64_t kPieceAlignment = 64;

class PackedFile {
 public:
  /// Maps the file and checks all of it but the pieces themselves. Throws Error("packed", ...) if it is not whole or
  /// not of this version, Error("file", ...) if it cannot be read.
  explicit PackedFile(const std::filesystem::path& path);

  /// Bytes that lie in the file, which may be damaged, and the checksum that they had.
  struct Piece {
    std::span<const std::byte> bytes;
    uint64_t checksum;
    /// Whether a copy of the bytes is what was written. The copy is what is to be asked: the disk may fail at any time.
    bool is(std::span<const std::byte> copy) const;
  };
  /// The piece of that key, which lives as long as this does; null: there is none.
  const Piece* find(uint64_t key) const;
  size_t pieces() const { return by_key_.size(); }

 private:
  [[noreturn]] void fail(const std::string& what) const;
  void read_directory();

  MappedFile file_;
  std::unordered_map<uint64_t, Piece> by_key_;
};

/// Writes such a file next to `path` and puts it there at commit().
class PackedFileWriter {
 public:
  /// Throws Error("file", ...), as the others do, if that cannot be.
  explicit PackedFileWriter(const std::filesystem::path& path);
  void add(uint64_t key, std::span<const std::byte> bytes);
  /// Takes a piece over from another file, with the checksum that it has there.
  void add(uint64_t key, const PackedFile::Piece& piece);
  void commit();
  /// Of the file so far.
  uint64_t bytes() const { return at_; }

 private:
  void write(std::span<const std::byte> bytes);

  DurableFile file_;
  uint64_t at_ = 0;
  std::vector<uint64_t> directory_;
};

}  // namespace ashlar
