// SPDX-License-Identifier: Apache-2.0
#pragma once
// UTF-8 helpers for Python's string semantics. Malformed bytes count as one character each, so nothing here fails.

#include <cstddef>
#include <string>
#include <string_view>

namespace ashlar::tmpl {

/// The code point at `position` (which must be inside `text`); `size` receives its byte length.
char32_t decode_at(std::string_view text, std::size_t position, std::size_t& size);
/// Appends the UTF-8 form of `code`.
void append_utf8(std::string& out, char32_t code);
/// Number of code points.
std::size_t count_code_points(std::string_view text);
/// Byte offset of code point `index` (text.size() when past the end).
std::size_t byte_offset(std::string_view text, std::size_t index);
/// True when `text` is well-formed UTF-8 without surrogates.
bool valid_utf8(std::string_view text);

/// Python's str.isspace, which is also what \s matches.
bool is_space(char32_t code);
/// Bytes of white space at the front / at the back of `text`.
std::size_t leading_space(std::string_view text);
std::size_t trailing_space(std::string_view text);

/// Full upper and lower case mapping without the context rule for final sigma.
std::string to_upper(std::string_view text);
std::string to_lower(std::string_view text);
void append_upper(std::string& out, char32_t code);
void append_lower(std::string& out, char32_t code);

bool is_alpha(char32_t code);
bool is_digit(char32_t code);
bool is_upper(char32_t code);
bool is_lower(char32_t code);
/// False for what Python's repr() escapes.
bool is_printable(char32_t code);

}  // namespace ashlar::tmpl
