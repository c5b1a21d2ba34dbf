// SPDX-License-Identifier: Apache-2.0
#include "io/weights/packed_file.h"

#include <cstring>
#include <string>

#include "base/content_hash.h"
#include "base/error.h"

namespace ashlar {
namespace {

constexpr char kMagic[9] = "ASHLARPK";
constexpr uint64_t kVersion = 1;
constexpr uint64_t kMaxPieces = 1 << 20;  // one for each projection of each expert would be 50,000
constexpr size_t kEntryWords = 4, kEndWords = 4;
constexpr size_t kEntryBytes = kEntryWords * sizeof(uint64_t), kEndBytes = kEndWords * sizeof(uint64_t);

uint64_t aligned(uint64_t bytes) { return (bytes + kPieceAlignment - 1) / kPieceAlignment * kPieceAlignment; }

std::vector<std::byte> head() {
  std::vector<std::byte> out(kPieceAlignment);
  std::memcpy(out.data(), kMagic, 8);
  std::memcpy(out.data() + 8, &kVersion, sizeof kVersion);
  return out;
}

bool all_zero(std::span<const std::byte> bytes) {
  for (const std::byte byte : bytes) {
    if (byte != std::byte{0}) return false;
  }
  return true;
}

}  // namespace

PackedFile::PackedFile(const std::filesystem::path& path) : file_(path) {
  read_directory();
  file_.check_whole();
}

void PackedFile::fail(const std::string& what) const { throw Error("packed", file_.path().string() + ": " + what); }

void PackedFile::read_directory() {
  const std::span<const std::byte> all = file_.bytes();
  const std::vector<std::byte> begin = head();
  if (all.size() < begin.size() + kEndBytes || std::memcmp(all.data(), begin.data(), begin.size()) != 0) {
    fail("is no file of packed weights of version " + std::to_string(kVersion));
  }
  uint64_t end[kEndWords];
  std::memcpy(end, all.data() + all.size() - kEndBytes, kEndBytes);
  const auto [offset, count, directory_hash, end_hash] = end;
  const std::span<const std::byte> numbers = std::as_bytes(std::span(end)).first(kEndBytes - sizeof(uint64_t));
  if (content_hash(numbers) != end_hash) fail("has no end; it is cut short or damaged");
  const uint64_t room = all.size() - kEndBytes;
  if (count > kMaxPieces || offset < kPieceAlignment || offset > room || room - offset != count * kEntryBytes) {
    fail("ends with a directory of " + std::to_string(count) + " pieces, which is not what lies there");
  }
  const std::span<const std::byte> directory = all.subspan(offset, count * kEntryBytes);
  if (content_hash(directory) != directory_hash) fail("has a damaged directory");
  uint64_t at = kPieceAlignment;
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t entry[kEntryWords];
    std::memcpy(entry, directory.data() + i * kEntryBytes, kEntryBytes);
    const auto [key, begins, bytes, checksum] = entry;
    if (begins != at || bytes > offset - at || aligned(bytes) > offset - at)
      fail("has pieces that do not follow each other");
    const uint64_t next = at + aligned(bytes);
    if (!all_zero(all.subspan(at + bytes, next - at - bytes))) fail("is damaged between its pieces");
    if (!by_key_.emplace(key, Piece{all.subspan(at, bytes), checksum}).second) fail("has a piece twice");
    at = next;
  }
  if (at != offset) fail("has " + std::to_string(offset - at) + " bytes of no piece");
}

bool PackedFile::Piece::is(std::span<const std::byte> copy) const { return content_hash(copy) == checksum; }

const PackedFile::Piece* PackedFile::find(uint64_t key) const {
  const auto found = by_key_.find(key);
  return found == by_key_.end() ? nullptr : &found->second;
}

PackedFileWriter::PackedFileWriter(const std::filesystem::path& path)
    : file_(path, {.mode = 0600, .sync = false}) {  // what is lost with the machine's power is found by checksums
  write(head());
}

void PackedFileWriter::write(std::span<const std::byte> bytes) {
  file_.write(bytes);
  at_ += bytes.size();
}

void PackedFileWriter::add(uint64_t key, std::span<const std::byte> bytes) { add(key, {bytes, content_hash(bytes)}); }

void PackedFileWriter::add(uint64_t key, const PackedFile::Piece& piece) {
  directory_.insert(directory_.end(), {key, at_, piece.bytes.size(), piece.checksum});
  write(piece.bytes);
  const std::byte zeros[kPieceAlignment] = {};
  write(std::span(zeros).first(aligned(at_) - at_));
}

void PackedFileWriter::commit() {
  const uint64_t offset = at_;
  const std::span<const std::byte> directory = std::as_bytes(std::span(directory_));
  write(directory);
  uint64_t end[kEndWords] = {offset, directory_.size() / kEntryWords, content_hash(directory), 0};
  end[3] = content_hash(std::as_bytes(std::span(end)).first(kEndBytes - sizeof(uint64_t)));
  write(std::as_bytes(std::span(end)));
  file_.commit();
}

}  // namespace ashlar
