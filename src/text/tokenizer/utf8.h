// SPDX-License-Identifier: Apache-2.0
#pragma once
// UTF-8 as the tokenizer needs it: strict decoding, and repair of broken bytes with U+FFFD.

#include <cstddef>
#include <string>
#include <string_view>

namespace ashlar::text {

inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD in UTF-8

/// What stands at one position of a byte string.
struct Utf8Unit {
  char32_t code_point = 0;  // meaningful when valid
  size_t length = 0;        // bytes of the character or, when broken, of its maximal subpart (Unicode 3.9, D93b); >= 1
  bool valid = false;
  bool cut_off = false;  // not valid, but more bytes could make it so: the text ends within the character
};

/// Decodes the unit that starts at `at`, which must be below text.size().
Utf8Unit utf8_at(std::string_view text, size_t at);

/// Start of the character that ends at `end` (valid UTF-8, end > 0).
size_t utf8_previous(std::string_view text, size_t end);

bool is_valid_utf8(std::string_view text);

/// Every maximal broken subpart becomes one U+FFFD, as Python's bytes.decode("utf-8", errors="replace") does.
std::string replace_invalid_utf8(std::string_view text);

void append_utf8(char32_t code_point, std::string& out);

/// The 25 code points with the Unicode property White_Space.
bool is_white_space(char32_t code_point);

/// replace_invalid_utf8 over a text that arrives in parts: the concatenated output does not depend on the cuts.
class Utf8Stream {
 public:
  /// Appends to `out` all that later bytes cannot change; at most 3 bytes are held back.
  void push(std::string_view bytes, std::string& out);
  /// Ends the text: a character that was cut off becomes U+FFFD.
  void flush(std::string& out);
  /// Whether the text so far ends within a character.
  bool in_character() const { return !pending_.empty(); }

 private:
  std::string pending_;
};

}  // namespace ashlar::text
