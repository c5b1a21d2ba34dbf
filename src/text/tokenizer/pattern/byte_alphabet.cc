// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/pattern/byte_alphabet.h"

#include "text/tokenizer/utf8.h"

namespace ashlar::text {
namespace {

constexpr char32_t kFirstSubstitute = 0x100;
constexpr int kSubstitutes = 68;

bool stands_for_itself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}

struct Alphabet {
  std::array<std::string, 256> spelling;
  std::array<int, kFirstSubstitute + kSubstitutes> byte_of;  // by code point; -1: not of the alphabet

  Alphabet() {
    byte_of.fill(-1);
    char32_t substitute = kFirstSubstitute;
    for (int byte = 0; byte < 256; ++byte) {
      const char32_t code_point = stands_for_itself(byte) ? static_cast<char32_t>(byte) : substitute++;
      append_utf8(code_point, spelling[byte]);
      byte_of[code_point] = byte;
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet instance;
  return instance;
}

}  // namespace

const std::array<std::string, 256>& byte_alphabet() { return alphabet().spelling; }

std::optional<std::string> bytes_of_spelling(std::string_view spelling) {
  const Alphabet& table = alphabet();
  std::string bytes;
  bytes.reserve(spelling.size());
  for (size_t at = 0; at < spelling.size();) {
    const Utf8Unit unit = utf8_at(spelling, at);
    if (!unit.valid || unit.code_point >= table.byte_of.size() || table.byte_of[unit.code_point] < 0) {
      return std::nullopt;
    }
    bytes.push_back(static_cast<char>(table.byte_of[unit.code_point]));
    at += unit.length;
  }
  return bytes;
}

}  // namespace ashlar::text
