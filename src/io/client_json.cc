// SPDX-License-Identifier: Apache-2.0
#include "io/client_json.h"

#include <charconv>
#include <cstdint>
#include <optional>

namespace ashlar {
namespace {

constexpr size_t kEscape = 6;  // bytes of \uXXXX

/// The code unit of an escape \uXXXX at `at`, if one stands there.
std::optional<uint32_t> unit_at(std::string_view text, size_t at) {
  if (text.size() < at + kEscape || text[at] != '\\' || text[at + 1] != 'u') return std::nullopt;
  uint32_t unit = 0;
  const char* end = text.data() + at + kEscape;
  const auto [rest, error] = std::from_chars(text.data() + at + 2, end, unit, 16);
  return error == std::errc() && rest == end ? std::optional(unit) : std::nullopt;
}

bool is_high(std::optional<uint32_t> unit) { return unit && *unit >= 0xD800 && *unit < 0xDC00; }
bool is_low(std::optional<uint32_t> unit) { return unit && *unit >= 0xDC00 && *unit < 0xE000; }

/// Where the next escape of half a pair stands, from the beginning of an escape or between escapes; npos: nowhere.
/// A backslash begins an escape wherever it is: outside of strings it is an error that the parser finds.
size_t next_lone(std::string_view text, size_t at) {
  for (at = text.find('\\', at); at != std::string_view::npos; at = text.find('\\', at)) {
    const std::optional<uint32_t> unit = unit_at(text, at);
    if (is_low(unit)) return at;
    if (!is_high(unit)) {
      at += 2;
    } else if (is_low(unit_at(text, at + kEscape))) {
      at += 2 * kEscape;
    } else {
      return at;
    }
  }
  return at;
}

}  // namespace

Json parse_client_json(std::string_view text, const std::string& name) {
  size_t lone = next_lone(text, 0);
  if (lone == std::string_view::npos) return parse_json(text, name);
  // Of the same length, so that places in messages stay right.
  std::string mended(text);
  for (; lone != std::string::npos; lone = next_lone(mended, lone + kEscape)) {
    mended.replace(lone, kEscape, "\\uFFFD");
  }
  return parse_json(mended, name);
}

}  // namespace ashlar
