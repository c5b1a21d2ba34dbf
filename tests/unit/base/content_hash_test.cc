// SPDX-License-Identifier: Apache-2.0
// Against xxHash's own implementation (the Python package xxhash 3): xxh64(bytes, seed).

#include "base/content_hash.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace ashlar {
namespace {

uint64_t hash_of(const std::string& text, uint64_t seed = 0) {
  return content_hash(std::as_bytes(std::span(text)), seed);
}

TEST(ContentHash, IsXxh64) {
  EXPECT_EQ(hash_of(""), 0xef46db3751d8e999);
  EXPECT_EQ(hash_of("a"), 0xd24ec4f1a98c6e5b);
  EXPECT_EQ(hash_of("abc"), 0x44bc2cf5ad770999);
  std::string bytes;
  for (int i = 0; i < 101; ++i) bytes += static_cast<char>(i * 7 + 3);
  constexpr std::pair<size_t, uint64_t> kExpected[] = {
      {3, 0xc6270ec97f034479},  {4, 0x6a3181371bbc2026},  {7, 0x6e596c9ec41c4637},  {8, 0xbbcc4601a016b1e4},
      {13, 0x7d69a936762890c6}, {31, 0x8086bf60119a7308}, {32, 0x244c3905cf320c2d}, {33, 0x1edc993457cf1fd8},
      {64, 0xef589281222c0318}, {101, 0x046dcca647ff92a6}};
  for (const auto& [length, hash] : kExpected) {
    EXPECT_EQ(hash_of(bytes.substr(0, length), 12345), hash) << length;
    for (const size_t piece : {1, 5, 32, 40}) {
      ContentHasher hasher(12345);
      for (size_t i = 0; i < length; i += piece) {
        hasher.add(std::as_bytes(std::span(bytes).subspan(i, std::min(piece, length - i))));
      }
      EXPECT_EQ(hasher.hash(), hash) << length << " in pieces of " << piece;
    }
  }
}

}  // namespace
}  // namespace ashlar
