// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/steps/character_map.h"

#include <utf8proc.h>

#include <cstring>

#include "text/tokenizer/utf8.h"

namespace ashlar::text {
namespace {

constexpr size_t kMaxBytes = 16U << 20;  // that of nmt_nfkc has 0.3 MB
constexpr size_t kMaxReplacement = 256;  // bytes; 33 in Unicode's compatibility forms
constexpr size_t kMaxWholeGrapheme = 5;  // longer clusters are looked at character by character

// One unit of a double array: where its children are, which byte leads to it, whether a value is among the children.
bool has_value(uint32_t unit) { return (unit >> 8 & 1) != 0; }
uint32_t value_of(uint32_t unit) { return unit & 0x7FFFFFFFU; }
uint32_t label_of(uint32_t unit) { return unit & 0x800000FFU; }
uint32_t offset_of(uint32_t unit) { return (unit >> 10) << ((unit & 0x200U) >> 6); }

int digit(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}

std::string from_base64(const JsonNode& node) {
  std::string_view text = node.text();
  if (text.size() / 4 * 3 > kMaxBytes)
    node.fail("more than " + std::to_string(kMaxBytes) + " bytes, which is the limit");
  if (text.size() % 4 != 0) node.fail("base64 of whole groups of four was expected");
  while (text.ends_with('=') && text.size() % 4 != 2) text.remove_suffix(1);
  std::string out;
  uint32_t bits = 0;
  int n = 0;
  for (const char c : text) {
    const int value = digit(c);
    if (value < 0) node.fail("base64 was expected");
    bits = bits << 6 | static_cast<uint32_t>(value);
    n += 6;
    if (n < 8) continue;
    n -= 8;
    out += static_cast<char>(bits >> n & 0xFF);
  }
  return out;
}

}  // namespace

CharacterMap::CharacterMap(const JsonNode& node) {
  const std::string bytes = from_base64(node);
  uint32_t trie = 0;
  if (bytes.size() >= sizeof trie) std::memcpy(&trie, bytes.data(), sizeof trie);
  if (bytes.size() < sizeof trie || trie > bytes.size() - sizeof trie || trie < sizeof(uint32_t) ||
      trie % sizeof(uint32_t) != 0) {
    node.fail("a trie of whole units after its size was expected, found " + std::to_string(bytes.size()) +
              " bytes and a size of " + std::to_string(trie));
  }
  units_.resize(trie / sizeof(uint32_t));
  std::memcpy(units_.data(), bytes.data() + sizeof trie, trie);
  replacements_ = bytes.substr(sizeof trie + trie);
  if (!is_valid_utf8(replacements_)) node.fail("replacements in UTF-8 were expected");
}

bool CharacterMap::replace(std::string_view part, std::string& out) const {
  uint32_t at = offset_of(units_[0]);
  for (const char c : part) {
    const auto byte = static_cast<unsigned char>(c);
    at ^= byte;
    if (byte == 0 || at >= units_.size() || label_of(units_[at]) != byte) return false;
    const uint32_t unit = units_[at];
    at ^= offset_of(unit);
    if (!has_value(unit)) continue;
    const size_t begin = at < units_.size() ? value_of(units_[at]) : replacements_.size();
    const size_t end = replacements_.find('\0', begin);
    const bool is_text =
        begin < replacements_.size() && (static_cast<unsigned char>(replacements_[begin]) & 0xC0) != 0x80;
    if (!is_text || end == std::string::npos || end - begin > kMaxReplacement) return false;
    out.append(replacements_, begin, end - begin);
    return true;
  }
  return false;
}

std::string CharacterMap::apply(std::string_view text, size_t most) const {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size() && out.size() <= most;) {
    Utf8Unit unit = utf8_at(text, at);
    size_t end = at + unit.length;
    utf8proc_int32_t state = 0;
    while (end < text.size()) {
      const Utf8Unit next = utf8_at(text, end);
      if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(unit.code_point),
                                           static_cast<utf8proc_int32_t>(next.code_point), &state)) {
        break;
      }
      unit = next;
      end += next.length;
    }
    const std::string_view grapheme = text.substr(at, end - at);
    at = end;
    if (grapheme.size() <= kMaxWholeGrapheme && replace(grapheme, out)) continue;
    for (size_t i = 0; i < grapheme.size() && out.size() <= most;) {
      const std::string_view character = grapheme.substr(i, utf8_at(grapheme, i).length);
      if (!replace(character, out)) out += character;
      i += character.size();
    }
  }
  return out;
}

}  // namespace ashlar::text
