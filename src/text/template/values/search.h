// SPDX-License-Identifier: Apache-2.0
#pragma once
// Substring search in linear time, so that a hostile pattern cannot make it quadratic.

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

namespace ashlar::tmpl {

/// First occurrence of `needle` at or after byte `from`, npos when there is none.
inline std::size_t find_bytes(std::string_view text, std::string_view needle, std::size_t from = 0) {
  if (from > text.size()) return std::string_view::npos;
  if (needle.empty()) return from;
  if (needle.size() <= 32) return text.find(needle, from);  // at worst 32 comparisons a byte
  const void* hit = ::memmem(text.data() + from, text.size() - from, needle.data(), needle.size());
  return hit == nullptr ? std::string_view::npos
                        : static_cast<std::size_t>(static_cast<const char*>(hit) - text.data());
}

/// Last occurrence of `needle` (not empty), npos when there is none.
inline std::size_t rfind_bytes(std::string_view text, std::string_view needle) {
  const std::string backward(text.rbegin(), text.rend());
  const std::string pattern(needle.rbegin(), needle.rend());
  const std::size_t hit = find_bytes(backward, pattern);
  return hit == std::string_view::npos ? hit : text.size() - hit - needle.size();
}

}  // namespace ashlar::tmpl
