// SPDX-License-Identifier: Apache-2.0
#include "io/weights/packed_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <map>
#include <string>

#include "base/content_hash.h"
#include "base/error.h"
#include "temp_folder.h"
#include "unit/io/outside_files.h"

namespace ashlar {
namespace {

using testing::expect_error;
using Pieces = std::map<uint64_t, std::string>;

void write(const std::filesystem::path& path, const Pieces& pieces) {
  PackedFileWriter writer(path);
  for (const auto& [key, text] : pieces) writer.add(key, std::as_bytes(std::span(text)));
  writer.commit();
}

/// What a reader finds under the keys of `of`; throws what it throws.
Pieces read(const std::filesystem::path& path, const Pieces& of) {
  const PackedFile file(path);
  Pieces found;
  for (const auto& [key, text] : of) {
    const auto piece = file.find(key);
    if (piece == nullptr) continue;
    if (!piece->is(piece->bytes)) throw Error("packed", path.string() + ": a piece is damaged");
    EXPECT_EQ(reinterpret_cast<uintptr_t>(piece->bytes.data()) % kPieceAlignment, 0U);
    found[key] = std::string(reinterpret_cast<const char*>(piece->bytes.data()), piece->bytes.size());
  }
  return found;
}

const Pieces kSome = {{1, std::string(200, 'a')}, {uint64_t{1} << 63, "b"}, {7, ""}, {8, std::string(64, '\0')}};

TEST(PackedFile, GivesWhatWasWritten) {
  const TempFolder folder;
  for (const Pieces& pieces : {Pieces{}, kSome}) {
    write(folder / "x", pieces);
    EXPECT_EQ(read(folder / "x", kSome), pieces);
    EXPECT_EQ(PackedFile(folder / "x").pieces(), pieces.size());
  }
  EXPECT_FALSE(PackedFile(folder / "x").find(2));
  struct stat info {};
  ASSERT_EQ(::stat((folder / "x").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 077, 0U) << "others may read or write it";
}

TEST(PackedFile, IsThereWholeOrNotAtAll) {
  const TempFolder folder;
  write(folder / "x", kSome);
  {
    PackedFileWriter abandoned(folder / "x");
    abandoned.add(1, std::as_bytes(std::span("another")));
  }
  EXPECT_EQ(read(folder / "x", kSome), kSome);
}

// A mapped file stays as it was while another one takes its name.
TEST(PackedFile, StaysForThoseWhoHaveIt) {
  const TempFolder folder;
  write(folder / "x", kSome);
  const PackedFile old(folder / "x");
  write(folder / "x", {{1, "new"}});
  EXPECT_EQ(old.find(1)->bytes.size(), 200U);
  EXPECT_EQ(read(folder / "x", kSome), (Pieces{{1, "new"}}));
}

TEST(PackedFile, FindsEachDamage) {
  const TempFolder folder;
  write(folder / "x", kSome);
  const std::string good = read_text_file(folder / "x", 1 << 20);
  const auto expect_found = [&](const std::string& bytes, const std::string& what) {
    const auto path = folder.write("y", bytes);
    expect_error([&] { read(path, kSome); }, {path.string()});
    if (::testing::Test::HasFailure()) FAIL() << what;
  };
  for (size_t i = 0; i < good.size(); ++i) {
    expect_found(good.substr(0, i), "cut to " + std::to_string(i));
    for (const int flip : {1, 0x80, 0xFF}) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ flip);
      expect_found(bad, "byte " + std::to_string(i));
    }
  }
  // A directory within the head, under right checksums: sizes that are right only where numbers wrap around.
  const auto word = [](uint64_t value) { return std::string(reinterpret_cast<const char*>(&value), sizeof value); };
  const auto hash = [](const std::string& text) { return content_hash(std::as_bytes(std::span(text))); };
  const std::string within = good.substr(0, 64) + word(64) + word(0x4000000000000001) + word(0);
  const std::string end = word(56) + word(1) + word(hash(within.substr(56)));
  expect_found(within + end + word(hash(end)), "directory within the head");
  expect_found(good + '\0', "longer");
  expect_found('\0' + good, "moved");
  expect_found(good + good, "twice");
}

}  // namespace
}  // namespace ashlar
