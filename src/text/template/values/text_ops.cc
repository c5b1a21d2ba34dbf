// SPDX-License-Identifier: Apache-2.0
#include "text/template/values/text_ops.h"

#include <algorithm>

#include "text/template/values/search.h"
#include "text/template/values/utf8.h"

namespace ashlar::tmpl {
namespace {

bool is_line_end(char32_t code) {
  return (code >= 0x0A && code <= 0x0D) || (code >= 0x1C && code <= 0x1E) || code == 0x85 || code == 0x2028 ||
         code == 0x2029;
}

/// Sorted code points of `text`.
std::u32string code_set(std::string_view text) {
  std::u32string out;
  for (std::size_t at = 0, size = 0; at < text.size(); at += size) out.push_back(decode_at(text, at, size));
  std::sort(out.begin(), out.end());
  return out;
}

std::size_t last_start(std::string_view text) {
  std::size_t start = text.size() - 1;
  while (start > 0 && text.size() - start < 4 && (static_cast<unsigned char>(text[start]) & 0xC0) == 0x80) --start;
  std::size_t size = 0;
  decode_at(text, start, size);
  return start + size == text.size() ? start : text.size() - 1;
}

}  // namespace

std::string_view strip(std::string_view text, const std::string* chars, bool left, bool right) {
  if (chars == nullptr) {
    if (left) text.remove_prefix(leading_space(text));
    if (right) text.remove_suffix(trailing_space(text));
    return text;
  }
  const std::u32string set = code_set(*chars);
  std::size_t size = 0;
  while (left && !text.empty() && std::binary_search(set.begin(), set.end(), decode_at(text, 0, size)))
    text.remove_prefix(size);
  while (right && !text.empty()) {
    const std::size_t start = last_start(text);
    if (!std::binary_search(set.begin(), set.end(), decode_at(text, start, size))) break;
    text = text.substr(0, start);
  }
  return text;
}

SourcedText replace(Budget& budget, const SourcedText& source, std::string_view old, const SourcedText& fresh,
                    std::int64_t count) {
  TextBuilder out(budget);
  const std::string_view text = source.bytes;
  budget.work(text.size());
  std::size_t at = 0;
  while (count != 0) {
    const std::size_t hit = find_bytes(text, old, at);
    if (hit == std::string_view::npos) break;
    out.put_part(source, text.substr(at, hit - at));
    out.put(fresh);
    at = hit + old.size();
    --count;
    if (!old.empty()) continue;
    if (at >= text.size()) return out.take();  // an empty pattern matches around every character, the end included
    std::size_t size = 0;
    decode_at(text, at, size);
    out.put_part(source, text.substr(at, size));
    at += size;
  }
  out.put_part(source, text.substr(at));
  return out.take();
}

std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> out;
  std::size_t start = 0;
  for (std::size_t at = 0, size = 0; at < text.size();) {
    const char32_t code = decode_at(text, at, size);
    if (!is_line_end(code)) {
      at += size;
      continue;
    }
    const std::size_t end = code == '\r' && at + 1 < text.size() && text[at + 1] == '\n' ? at + 2 : at + size;
    out.push_back(text.substr(start, (keep_ends ? end : at) - start));
    start = at = end;
  }
  if (start < text.size()) out.push_back(text.substr(start));
  return out;
}

std::vector<std::string_view> split_space(std::string_view text, std::int64_t limit) {
  std::vector<std::string_view> out;
  text.remove_prefix(leading_space(text));
  while (!text.empty()) {
    if (limit-- == 0) {
      out.push_back(text);  // Python leaves the white space at the far end of the rest
      break;
    }
    std::size_t end = 0;
    for (std::size_t size = 0; end < text.size() && !is_space(decode_at(text, end, size));) end += size;
    out.push_back(text.substr(0, end));
    text.remove_prefix(end);
    text.remove_prefix(leading_space(text));
  }
  return out;
}

std::vector<std::string_view> rsplit_space(std::string_view text, std::int64_t limit) {
  if (limit < 0) return split_space(text, limit);
  std::vector<std::string_view> out;
  text.remove_suffix(trailing_space(text));
  while (!text.empty()) {
    if (limit-- == 0) {
      out.push_back(text);
      break;
    }
    std::size_t start = text.size();
    while (start > 0) {
      const std::size_t before = last_start(text.substr(0, start));
      std::size_t size = 0;
      if (is_space(decode_at(text, before, size))) break;
      start = before;
    }
    out.push_back(text.substr(start));
    text = text.substr(0, start);
    text.remove_suffix(trailing_space(text));
  }
  std::reverse(out.begin(), out.end());
  return out;
}

std::vector<std::string_view> split_at(std::string_view text, std::string_view separator, std::int64_t limit) {
  if (separator.empty()) fail("empty separator");
  std::vector<std::string_view> out;
  std::size_t at = 0;
  while (limit-- != 0) {
    const std::size_t hit = find_bytes(text, separator, at);
    if (hit == std::string_view::npos) break;
    out.push_back(text.substr(at, hit - at));
    at = hit + separator.size();
  }
  out.push_back(text.substr(at));
  return out;
}

std::vector<std::string_view> rsplit_at(std::string_view text, std::string_view separator, std::int64_t limit) {
  if (separator.empty()) fail("empty separator");
  const std::string backward(text.rbegin(), text.rend());
  const std::string pattern(separator.rbegin(), separator.rend());
  std::vector<std::string_view> out;
  for (const std::string_view part : split_at(backward, pattern, limit)) {
    const auto from = static_cast<std::size_t>(part.data() - backward.data());
    out.push_back(text.substr(text.size() - from - part.size(), part.size()));
  }
  std::reverse(out.begin(), out.end());
  return out;
}

SourcedText pad(Budget& budget, const Text& text, std::int64_t width, Align align, const SourcedText& fill) {
  const auto length = static_cast<std::int64_t>(text.length);
  if (width <= length) return text;
  const std::int64_t space = width - length;
  if (static_cast<std::uint64_t>(space) > budget.limits().string_bytes)
    budget.string_size(static_cast<std::uint64_t>(space));
  budget.string_size(text.bytes.size() + static_cast<std::uint64_t>(space) * fill.bytes.size());
  const std::int64_t left = align == Align::kLeft    ? 0
                            : align == Align::kRight ? space
                                                     : space / 2 + (space & width & 1);
  TextBuilder out(budget);
  for (std::int64_t i = 0; i < left; ++i) out.put(fill);
  out.put(text);
  for (std::int64_t i = left; i < space; ++i) out.put(fill);
  return out.take();
}

std::string capitalize(std::string_view text) {
  if (text.empty()) return "";
  std::string out;
  std::size_t size = 0;
  append_upper(out, decode_at(text, 0, size));
  return out + to_lower(text.substr(size));
}

std::string title_case(std::string_view text) {
  std::string out;
  bool inside = false;
  for (std::size_t at = 0, size = 0; at < text.size(); at += size) {
    const char32_t code = decode_at(text, at, size);
    if (inside) {
      append_lower(out, code);
    } else {
      append_upper(out, code);
    }
    inside = is_upper(code) || is_lower(code);
  }
  return out;
}

const Text& need_text(const Value& value, std::string_view what) {
  if (value.is_undefined()) fail_undefined(value);
  if (!value.is(Kind::kString)) fail(std::string(what) + " expects a string, got " + value.type_name());
  return value.as_text();
}

Value make_parts(Budget& budget, const SourcedText& whole, const std::vector<std::string_view>& parts) {
  std::vector<Value> items;
  budget.step(parts.size());
  items.reserve(parts.size());
  for (const std::string_view part : parts) items.push_back(make_part(budget, whole, part));
  return make_list(budget, std::move(items));
}

void charge_case_mapping(Budget& budget, std::string_view text) { budget.work(text.size() * 8); }

}  // namespace ashlar::tmpl
