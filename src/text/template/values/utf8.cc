// SPDX-License-Identifier: Apache-2.0
#include "text/template/values/utf8.h"

#include <utf8proc.h>

#include <algorithm>
#include <iterator>

#include "text/template/values/unicode_tables.h"

namespace ashlar::tmpl {
namespace {

utf8proc_category_t category(char32_t code) { return utf8proc_category(static_cast<utf8proc_int32_t>(code)); }
char32_t simple_upper(char32_t code) {
  return static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(code)));
}
char32_t simple_lower(char32_t code) {
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code)));
}

const char* special_case(const CaseSpecial* begin, const CaseSpecial* end, char32_t code) {
  const CaseSpecial* it =
      std::lower_bound(begin, end, code, [](const CaseSpecial& s, char32_t c) { return s.code < c; });
  return it != end && it->code == code ? it->mapped : nullptr;
}

/// Byte length of a well-formed sequence at `position`, or 0.
std::size_t sequence_length(std::string_view text, std::size_t position) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[position + i]); };
  const unsigned char lead = byte(0);
  const std::size_t length = lead < 0x80   ? 1
                             : lead < 0xC2 ? 0
                             : lead < 0xE0 ? 2
                             : lead < 0xF0 ? 3
                             : lead < 0xF5 ? 4
                                           : 0;
  if (length == 0 || position + length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  if ((lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xED && byte(1) >= 0xA0)) return 0;
  if ((lead == 0xF0 && byte(1) < 0x90) || (lead == 0xF4 && byte(1) >= 0x90)) return 0;
  return length;
}

}  // namespace

char32_t decode_at(std::string_view text, std::size_t position, std::size_t& size) {
  const auto byte = [&](std::size_t i) {
    return static_cast<char32_t>(static_cast<unsigned char>(text[position + i]));
  };
  size = sequence_length(text, position);
  switch (size) {
    case 2:
      return ((byte(0) & 0x1F) << 6) | (byte(1) & 0x3F);
    case 3:
      return ((byte(0) & 0x0F) << 12) | ((byte(1) & 0x3F) << 6) | (byte(2) & 0x3F);
    case 4:
      return ((byte(0) & 0x07) << 18) | ((byte(1) & 0x3F) << 12) | ((byte(2) & 0x3F) << 6) | (byte(3) & 0x3F);
    case 0:
      size = 1;
      return 0xFFFD;
    default:
      return byte(0);
  }
}

void append_utf8(std::string& out, char32_t code) {
  const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | (code >> 6));
    put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | (code >> 12));
    put(0x80 | ((code >> 6) & 0x3F));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | (code >> 18));
    put(0x80 | ((code >> 12) & 0x3F));
    put(0x80 | ((code >> 6) & 0x3F));
    put(0x80 | (code & 0x3F));
  }
}

std::size_t count_code_points(std::string_view text) {
  const bool ascii = std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  if (ascii) return text.size();
  std::size_t count = 0;
  for (std::size_t at = 0, size = 0; at < text.size(); at += size, ++count) decode_at(text, at, size);
  return count;
}

std::size_t byte_offset(std::string_view text, std::size_t index) {
  std::size_t at = 0;
  for (std::size_t size = 0; index > 0 && at < text.size(); at += size, --index) decode_at(text, at, size);
  return at;
}

bool valid_utf8(std::string_view text) {
  for (std::size_t at = 0, size = 0; at < text.size(); at += size)
    if ((size = sequence_length(text, at)) == 0) return false;
  return true;
}

bool is_space(char32_t code) {
  if (code < 0x80) return (code >= 9 && code <= 13) || (code >= 28 && code <= 32);
  return code == 0x85 || code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 ||
         code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

std::size_t leading_space(std::string_view text) {
  std::size_t at = 0;
  for (std::size_t size = 0; at < text.size() && is_space(decode_at(text, at, size));) at += size;
  return at;
}

std::size_t trailing_space(std::string_view text) {
  std::size_t end = text.size();
  while (end > 0) {
    std::size_t start = end - 1;
    while (start > 0 && end - start < 4 && (static_cast<unsigned char>(text[start]) & 0xC0) == 0x80) --start;
    std::size_t size = 0;
    const char32_t code = decode_at(text, start, size);
    if (start + size != end || !is_space(code)) break;
    end = start;
  }
  return text.size() - end;
}

void append_upper(std::string& out, char32_t code) {
  if (code < 0x80) {
    out.push_back(static_cast<char>(code >= 'a' && code <= 'z' ? code - 32 : code));
  } else if (const char* mapped = special_case(std::begin(kUpperSpecial), std::end(kUpperSpecial), code)) {
    out += mapped;
  } else {
    append_utf8(out, simple_upper(code));
  }
}

void append_lower(std::string& out, char32_t code) {
  if (code < 0x80) {
    out.push_back(static_cast<char>(code >= 'A' && code <= 'Z' ? code + 32 : code));
  } else if (const char* mapped = special_case(std::begin(kLowerSpecial), std::end(kLowerSpecial), code)) {
    out += mapped;
  } else {
    append_utf8(out, simple_lower(code));
  }
}

std::string to_upper(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0, size = 0; at < text.size(); at += size) append_upper(out, decode_at(text, at, size));
  return out;
}

std::string to_lower(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0, size = 0; at < text.size(); at += size) append_lower(out, decode_at(text, at, size));
  return out;
}

bool is_alpha(char32_t code) {
  if (code < 0x80) return (code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z');
  const utf8proc_category_t kind = category(code);
  return kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO;
}

bool is_digit(char32_t code) {
  if (code < 0x80) return code >= '0' && code <= '9';
  return category(code) == UTF8PROC_CATEGORY_ND ||
         std::any_of(std::begin(kOtherDigits), std::end(kOtherDigits),
                     [code](const CodeRange& range) { return range.first <= code && code <= range.last; });
}

bool is_upper(char32_t code) {
  if (code < 0x80) return code >= 'A' && code <= 'Z';
  return simple_lower(code) != code;
}

bool is_lower(char32_t code) {
  if (code < 0x80) return code >= 'a' && code <= 'z';
  return simple_upper(code) != code ||
         special_case(std::begin(kUpperSpecial), std::end(kUpperSpecial), code) != nullptr;
}

bool is_printable(char32_t code) {
  if (code < 0x80) return code >= 32 && code < 127;
  const utf8proc_category_t kind = category(code);
  return kind != UTF8PROC_CATEGORY_CN && kind < UTF8PROC_CATEGORY_ZS;  // separators and controls come last
}

}  // namespace ashlar::tmpl
