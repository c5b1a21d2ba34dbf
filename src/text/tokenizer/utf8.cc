// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/utf8.h"

namespace ashlar::text {
namespace {

// The lead byte fixes the length and the range of the second byte (Unicode, table 3-7).
struct Lead {
  size_t length;  // 0: cannot start a character
  unsigned char low, high;
};

Lead lead_of(unsigned char byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

}  // namespace

Utf8Unit utf8_at(std::string_view text, size_t at) {
  const auto first = static_cast<unsigned char>(text[at]);
  const Lead lead = lead_of(first);
  if (lead.length == 0) return {0, 1, false, false};
  if (lead.length == 1) return {first, 1, true, false};
  char32_t code_point = first & (0x7FU >> lead.length);
  for (size_t i = 1; i < lead.length; ++i) {
    if (at + i == text.size()) return {0, i, false, true};
    const auto byte = static_cast<unsigned char>(text[at + i]);
    const unsigned char low = i == 1 ? lead.low : 0x80;
    const unsigned char high = i == 1 ? lead.high : 0xBF;
    if (byte < low || byte > high) return {0, i, false, false};
    code_point = (code_point << 6) | (byte & 0x3FU);
  }
  return {code_point, lead.length, true, false};
}

size_t utf8_previous(std::string_view text, size_t end) {
  size_t at = end - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80) --at;
  return at;
}

bool is_valid_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      ++at;
      continue;
    }
    const Utf8Unit unit = utf8_at(text, at);
    if (!unit.valid) return false;
    at += unit.length;
  }
  return true;
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size() + 8);
  Utf8Stream stream;
  stream.push(text, out);
  stream.flush(out);
  return out;
}

void append_utf8(char32_t code_point, std::string& out) {
  const auto put = [&out](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | (code_point >> 6));
    put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | (code_point >> 12));
    put(0x80 | ((code_point >> 6) & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | (code_point >> 18));
    put(0x80 | ((code_point >> 12) & 0x3F));
    put(0x80 | ((code_point >> 6) & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
}

bool is_white_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

void Utf8Stream::push(std::string_view bytes, std::string& out) {
  std::string joined;
  if (!pending_.empty()) {
    joined = pending_ + std::string(bytes);
    bytes = joined;
    pending_.clear();
  }
  size_t good = 0;  // bytes[good, at) is valid and not yet copied
  size_t at = 0;
  while (at < bytes.size()) {
    const Utf8Unit unit = utf8_at(bytes, at);
    if (!unit.valid) {
      out.append(bytes, good, at - good);
      good = at + unit.length;
      if (unit.cut_off) {
        pending_ = bytes.substr(at);
        return;
      }
      out += kReplacement;
    }
    at += unit.length;
  }
  out.append(bytes, good, at - good);
}

void Utf8Stream::flush(std::string& out) {
  if (!pending_.empty()) out += kReplacement;
  pending_.clear();
}

}  // namespace ashlar::text
