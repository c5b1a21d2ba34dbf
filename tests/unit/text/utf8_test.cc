// SPDX-License-Identifier: Apache-2.0
// Repair of broken UTF-8 against what Python's bytes.decode("utf-8", "replace") gives.

#include "text/tokenizer/utf8.h"

#include <gtest/gtest.h>

#include "tokenizer_goldens.h"

namespace ashlar::test {
namespace {

using text::replace_invalid_utf8;

struct Case {
  std::string bytes;
  std::string expected;
};

std::string from_hex(const std::string& digits) {
  std::string bytes;
  for (size_t i = 0; i + 1 < digits.size(); i += 2)
    bytes += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  return bytes;
}

std::vector<Case> replace_cases() {
  std::vector<Case> cases;
  for (const auto& entry : read_json(data_path("utf8.json"))) cases.push_back({from_hex(entry[0]), from_hex(entry[1])});
  EXPECT_GE(cases.size(), 500U);
  return cases;
}

TEST(Utf8, ReplaceAsPython) {
  for (const Case& entry : replace_cases()) {
    EXPECT_EQ(replace_invalid_utf8(entry.bytes), entry.expected);
    EXPECT_EQ(text::is_valid_utf8(entry.bytes), entry.bytes == entry.expected);
    EXPECT_TRUE(text::is_valid_utf8(entry.expected));
  }
}

TEST(Utf8, StreamDoesNotDependOnTheCuts) {
  for (const Case& entry : replace_cases()) {
    for (size_t step = 1; step <= 3; ++step) {
      text::Utf8Stream stream;
      std::string out;
      for (size_t at = 0; at < entry.bytes.size(); at += step) {
        stream.push(entry.bytes.substr(at, step), out);
        EXPECT_TRUE(text::is_valid_utf8(out));
      }
      stream.flush(out);
      EXPECT_EQ(out, entry.expected);
    }
  }
}

TEST(Utf8, EveryCodePointGoesThrough) {
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string bytes = "x";
    text::append_utf8(c, bytes);
    const text::Utf8Unit unit = text::utf8_at(bytes, 1);
    ASSERT_TRUE(unit.valid);
    ASSERT_EQ(static_cast<uint32_t>(unit.code_point), static_cast<uint32_t>(c));
    ASSERT_EQ(unit.length, bytes.size() - 1);
    ASSERT_EQ(text::utf8_previous(bytes, bytes.size()), 1U);
  }
}

}  // namespace
}  // namespace ashlar::test
