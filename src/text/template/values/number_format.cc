// SPDX-License-Identifier: Apache-2.0
#include "text/template/values/number_format.h"

#include <array>
#include <cctype>
#include <cmath>
#include <cstdio>

#include "text/template/values/text_ops.h"
#include "text/template/values/utf8.h"

namespace ashlar::tmpl {
namespace {

constexpr std::int64_t kMaxPrecision = 1000;
constexpr std::int64_t kMaxField = 1'000'000'000;

}  // namespace

std::int64_t read_number(std::string_view text, std::size_t& at) {
  std::int64_t value = -1;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
    value = (value < 0 ? 0 : value * 10) + (text[at] - '0');
    if (value > kMaxField) fail("limit of " + std::to_string(kMaxField) + " on numbers in a format exceeded");
  }
  return value;
}

SourcedText pad_text(Budget& budget, const FieldStyle& style, SourcedText text, char align) {
  Text measured;
  measured.length = count_code_points(text.bytes);
  static_cast<SourcedText&>(measured) = std::move(text);
  const SourcedText fill{style.fill, style.origin};
  if (align == '^') {  // format() puts the odd space at the right, unlike str.center
    const auto length = static_cast<std::int64_t>(measured.length);
    const std::int64_t left = style.width > length ? (style.width - length) / 2 : 0;
    static_cast<SourcedText&>(measured) = pad(budget, measured, length + left, Align::kRight, fill);
    measured.length += static_cast<std::size_t>(left);
    align = '<';
  }
  return pad(budget, measured, style.width, align == '<' ? Align::kLeft : Align::kRight, fill);
}

SourcedText pad_number(Budget& budget, const FieldStyle& style, bool negative, const std::string& prefix,
                       const std::string& digits) {
  const std::string lead = std::string(negative ? "-" : style.sign == '-' ? "" : std::string(1, style.sign)) + prefix;
  const char align = style.align == '\0' ? '>' : style.align;
  if (align != '=') return pad_text(budget, style, {lead + digits, style.origin}, align);
  FieldStyle inner = style;
  inner.width = style.width - static_cast<std::int64_t>(lead.size());
  return {lead + pad_text(budget, inner, {digits, style.origin}, '>').bytes, style.origin};
}

SourcedText code_character(std::int64_t value) {
  if (value < 0 || value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) fail("%c requires the code of a character");
  std::string out;
  append_utf8(out, static_cast<char32_t>(value));
  return {out, Origin::kSaid};
}

std::string int_digits(std::uint64_t value, int base, bool upper) {
  const char* digits = upper ? "0123456789ABCDEF" : "0123456789abcdef";
  std::string out;
  do {
    out.insert(out.begin(), digits[value % static_cast<unsigned>(base)]);
    value /= static_cast<unsigned>(base);
  } while (value != 0);
  return out;
}

std::string float_digits(double value, char type, std::int64_t precision, bool alternate) {
  value = std::fabs(value);
  const bool upper = std::isupper(static_cast<unsigned char>(type)) != 0;
  if (std::isnan(value)) return upper ? "NAN" : "nan";
  if (std::isinf(value)) return upper ? "INF" : "inf";
  if (precision < 0) precision = 6;
  if (precision > kMaxPrecision) fail("limit of " + std::to_string(kMaxPrecision) + " digits of precision exceeded");
  if (type == '%') return float_digits(value * 100, 'f', precision, alternate) + "%";
  std::string format = std::string(alternate ? "%#" : "%") + ".*" + type;
  std::array<char, kMaxPrecision + 400> buffer{};  // the largest double has 309 digits before the point
  std::snprintf(buffer.data(), buffer.size(), format.c_str(), static_cast<int>(precision), value);
  return buffer.data();
}

std::string group_digits(const std::string& digits, char separator, int size) {
  std::size_t end = 0;
  const auto is_digit = [size](unsigned char c) { return size == 4 ? std::isxdigit(c) != 0 : std::isdigit(c) != 0; };
  while (end < digits.size() && is_digit(static_cast<unsigned char>(digits[end]))) ++end;
  std::string out = digits;
  for (auto at = static_cast<std::int64_t>(end) - size; at > 0; at -= size)
    out.insert(static_cast<std::size_t>(at), 1, separator);
  return out;
}

}  // namespace ashlar::tmpl
