// SPDX-License-Identifier: Apache-2.0
#include "text/template/parse/string_literal.h"

#include <algorithm>

#include "text/template/run/budget.h"
#include "text/template/values/utf8.h"

namespace ashlar::tmpl {
namespace {

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/// Reads `count` hexadecimal digits at `at`, which moves past them.
char32_t read_hex(std::string_view body, std::size_t& at, int count, int line) {
  char32_t code = 0;
  for (int i = 0; i < count; ++i, ++at) {
    const int digit = at < body.size() ? hex_value(body[at]) : -1;
    if (digit < 0) throw LocatedFailure(line, "truncated escape in a string literal");
    code = code * 16 + static_cast<char32_t>(digit);
  }
  if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000))
    throw LocatedFailure(line, "escape in a string literal is not a Unicode character");
  return code;
}

char32_t read_octal(std::string_view body, std::size_t& at) {
  char32_t code = 0;
  for (int i = 0; i < 3 && at < body.size() && body[at] >= '0' && body[at] <= '7'; ++i, ++at)
    code = code * 8 + static_cast<char32_t>(body[at] - '0');
  return code;
}

}  // namespace

std::string unescape(std::string_view body, int line) {
  static constexpr std::string_view kFrom = "\\'\"abfnrtv";
  static constexpr std::string_view kTo = "\\'\"\a\b\f\n\r\t\v";
  std::string out;
  for (std::size_t at = 0; at < body.size();) {
    if (body[at] != '\\') {
      out.push_back(body[at++]);
      continue;
    }
    const char kind = body[at + 1];  // the lexer's pattern never ends a literal on a backslash
    if (kind >= '0' && kind <= '7') {
      append_utf8(out, read_octal(body, ++at));
      continue;
    }
    at += 2;
    if (const std::size_t known = kFrom.find(kind); known != std::string_view::npos) {
      out.push_back(kTo[known]);
    } else if (kind == 'x' || kind == 'u' || kind == 'U') {
      append_utf8(out, read_hex(body, at, kind == 'x' ? 2 : kind == 'u' ? 4 : 8, line));
    } else if (kind == 'N') {
      throw LocatedFailure(line, "named characters (\\N{...}) in string literals are not supported");
    } else if (kind != '\n') {  // an escaped newline joins lines; an unknown escape stands for itself
      out.push_back('\\');
      out.push_back(kind);
    }
  }
  return out;
}

}  // namespace ashlar::tmpl
