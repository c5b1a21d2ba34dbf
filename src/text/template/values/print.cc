// SPDX-License-Identifier: Apache-2.0
#include "text/template/values/print.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "text/template/values/dict.h"
#include "text/template/values/utf8.h"

namespace ashlar::tmpl {
namespace {

void append(Budget& budget, FlatText& out, std::string_view piece) {
  budget.work(piece.size());
  const std::size_t size = out.bytes.size() + piece.size();
  if (size > budget.limits().string_bytes) budget.string_size(size);
  out.bytes += piece;
}

void append_hex(std::string& out, const char* format, unsigned value) {
  std::array<char, 16> buffer{};
  std::snprintf(buffer.data(), buffer.size(), format, value);
  out += buffer.data();
}

void append_items(Budget& budget, FlatText& out, const Value& value, int depth) {
  const auto& items = value.as_items();
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) append(budget, out, ", ");
    append_repr(budget, out, items[i], depth + 1);
  }
}

void append_dict(Budget& budget, FlatText& out, const Dict& dict, int depth) {
  append(budget, out, "{");
  const char* separator = "";
  for (const auto& [key, value] : dict.entries) {
    append(budget, out, separator);
    append_repr(budget, out, key, depth + 1);
    append(budget, out, ": ");
    append_repr(budget, out, value, depth + 1);
    separator = ", ";
  }
  append(budget, out, "}");
}

std::string range_repr(const Range& range) {
  std::string out = "range(" + std::to_string(range.start) + ", " + std::to_string(range.stop);
  if (range.step != 1) out += ", " + std::to_string(range.step);
  return out + ")";
}

}  // namespace

std::string quote(std::string_view text) {
  const char mark = text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos ? '"' : '\'';
  std::string out(1, mark);
  for (std::size_t at = 0, size = 0; at < text.size(); at += size) {
    const char32_t code = decode_at(text, at, size);
    if (code == static_cast<char32_t>(mark) || code == '\\') {
      out += {'\\', static_cast<char>(code)};
    } else if (code == '\n') {
      out += "\\n";
    } else if (code == '\r') {
      out += "\\r";
    } else if (code == '\t') {
      out += "\\t";
    } else if (is_printable(code)) {
      out += text.substr(at, size);
    } else {
      append_hex(out, code < 0x100 ? "\\x%02x" : code < 0x10000 ? "\\u%04x" : "\\U%08x", static_cast<unsigned>(code));
    }
  }
  out.push_back(mark);
  return out;
}

std::string float_repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::array<char, 64> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::scientific);
  const std::string scientific(buffer.data(), end.ptr);
  const std::size_t e = scientific.find('e');
  const int exponent = std::stoi(scientific.substr(e + 1));
  if (exponent < -4 || exponent >= 16) return scientific;  // to_chars writes the exponent as Python does: e+16, e-05
  const std::string sign = scientific[0] == '-' ? "-" : "";
  std::string digits;
  for (const char c : scientific.substr(0, e))
    if (c >= '0' && c <= '9') digits.push_back(c);
  if (exponent < 0) return sign + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  const auto whole = static_cast<std::size_t>(exponent) + 1;
  if (digits.size() <= whole) return sign + digits + std::string(whole - digits.size(), '0') + ".0";
  return sign + digits.substr(0, whole) + "." + digits.substr(whole);
}

void append_repr(Budget& budget, FlatText& out, const Value& value, int depth) {
  budget.step();
  checked_depth(depth);
  switch (value.kind()) {
    case Kind::kUndefined:
      return append(budget, out, "Undefined");
    case Kind::kNone:
      return append(budget, out, "None");
    case Kind::kBool:
      return append(budget, out, value.as_bool() ? "True" : "False");
    case Kind::kInt:
      return append(budget, out, std::to_string(value.as_int()));
    case Kind::kFloat:
      return append(budget, out, float_repr(value.as_float()));
    case Kind::kString:
      budget.work(value.as_string().size());
      out.include(value.as_text().origins);
      return append(budget, out,
                    value.as_text().markup ? "Markup(" + quote(value.as_string()) + ")" : quote(value.as_string()));
    case Kind::kList:
      append(budget, out, "[");
      append_items(budget, out, value, depth);
      return append(budget, out, "]");
    case Kind::kTuple:
      append(budget, out, "(");
      append_items(budget, out, value, depth);
      return append(budget, out, value.as_items().size() == 1 ? ",)" : ")");
    case Kind::kView:
      append(budget, out, std::string(value.as_sequence().view) + "([");
      append_items(budget, out, value, depth);
      return append(budget, out, "])");
    case Kind::kDict:
      return append_dict(budget, out, value.as_dict(), depth);
    case Kind::kRange:
      return append(budget, out, range_repr(value.as_range()));
    case Kind::kIterator:
      return append(budget, out, "<generator object>");
    case Kind::kObject:
      return value.as_object().append_repr(budget, out, depth);
  }
}

FlatText to_repr(Budget& budget, const Value& value) {
  FlatText out;
  append_repr(budget, out, value, 0);
  return out;
}

Value text_of(Budget& budget, const Value& value) {
  if (!value.is(Kind::kDict) || !value.as_dict().json_text) return value;
  FlatText text = to_json(budget, value, {});
  return make_string(budget, std::move(text.bytes), text.origin);
}

Value to_str(Budget& budget, const Value& value) {
  if (value.is(Kind::kString)) return value;
  if (value.is_undefined()) return make_string(budget, "", Origin::kTemplate);
  if (value.is(Kind::kDict) && value.as_dict().json_text) return text_of(budget, value);
  FlatText text = to_repr(budget, value);
  return make_string(budget, std::move(text.bytes), text.origin);
}

}  // namespace ashlar::tmpl
