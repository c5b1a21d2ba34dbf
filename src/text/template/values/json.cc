// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "text/template/values/dict.h"
#include "text/template/values/operators.h"
#include "text/template/values/print.h"
#include "text/template/values/utf8.h"

namespace ashlar::tmpl {
namespace {

class JsonWriter {
 public:
  JsonWriter(Budget& budget, const JsonStyle& style) : budget_(budget), style_(style), out_{"", style.origin} {}

  void value(const Value& value, int depth) {
    budget_.step();
    switch (value.kind()) {
      case Kind::kNone:
        return append("null");
      case Kind::kBool:
        return append(value.as_bool() ? "true" : "false");
      case Kind::kInt:
        return append(std::to_string(value.as_int()));
      case Kind::kFloat:
        return append(number(value.as_float()));
      case Kind::kString:
        return string(value.as_text());
      case Kind::kList:
      case Kind::kTuple:
        return list(value.as_items(), depth);
      case Kind::kDict:
        return dict(value.as_dict(), depth);
      default:
        fail("Object of type " + value.type_name() + " is not JSON serializable");
    }
  }

  FlatText take() { return std::move(out_); }

 private:
  void append(std::string_view piece) {
    budget_.work(piece.size());
    const std::size_t size = out_.bytes.size() + piece.size();
    if (size > budget_.limits().string_bytes) budget_.string_size(size);
    out_.bytes += piece;
  }

  static std::string number(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
    return float_repr(value);
  }

  void unicode_escape(std::string& piece, unsigned code) const {
    std::array<char, 16> buffer{};
    std::snprintf(buffer.data(), buffer.size(), "\\u%04x", code);
    piece += buffer.data();
  }

  void string(const Text& source) {
    const std::string_view text = source.bytes;
    out_.include(source.origins);
    static constexpr std::string_view kFrom = "\"\\\n\r\t\f\b";
    static constexpr std::string_view kTo = "\"\\nrtfb";
    std::string piece = "\"";
    budget_.string_size(text.size());
    for (std::size_t at = 0, size = 0; at < text.size(); at += size) {
      const char32_t code = decode_at(text, at, size);
      const std::size_t known = code < 0x80 ? kFrom.find(static_cast<char>(code)) : std::string_view::npos;
      if (known != std::string_view::npos) {
        piece += {'\\', kTo[known]};
      } else if (code < 0x20 || (style_.ascii && code == 0x7F)) {
        unicode_escape(piece, code);
      } else if (style_.ascii && code >= 0x10000) {
        unicode_escape(piece, 0xD800 + ((code - 0x10000) >> 10));
        unicode_escape(piece, 0xDC00 + ((code - 0x10000) & 0x3FF));
      } else if (style_.ascii && code >= 0x80) {
        unicode_escape(piece, code);
      } else {
        piece += text.substr(at, size);
      }
    }
    append(piece + "\"");
  }

  void new_line(int depth) {
    if (!style_.pretty) return;
    append("\n");
    for (int i = 0; i < depth; ++i) append(style_.indent);
  }

  void list(const std::vector<Value>& items, int depth) {
    if (items.empty()) return append("[]");
    append("[");
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) append(style_.item_separator);
      new_line(depth + 1);
      value(items[i], depth + 1);
    }
    new_line(depth);
    append("]");
  }

  void key(const Value& key) {
    switch (key.kind()) {
      case Kind::kString:
        return string(key.as_text());
      case Kind::kNone:
        return append("\"null\"");
      case Kind::kBool:
        return append(key.as_bool() ? "\"true\"" : "\"false\"");
      case Kind::kInt:
        return append("\"" + std::to_string(key.as_int()) + "\"");
      case Kind::kFloat:
        return append("\"" + number(key.as_float()) + "\"");
      default:
        fail("keys must be str, int, float, bool or None, not " + key.type_name());
    }
  }

  void dict(const Dict& dict, int depth) {
    if (dict.entries.empty()) return append("{}");
    std::vector<const std::pair<Value, Value>*> entries;
    for (const auto& entry : dict.entries) entries.push_back(&entry);
    if (style_.sort_keys)
      std::stable_sort(entries.begin(), entries.end(),
                       [&](const auto* a, const auto* b) { return less(budget_, a->first, b->first); });
    append("{");
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) append(style_.item_separator);
      new_line(depth + 1);
      key(entries[i]->first);
      append(style_.key_separator);
      value(entries[i]->second, depth + 1);
    }
    new_line(depth);
    append("}");
  }

  Budget& budget_;
  const JsonStyle& style_;
  FlatText out_;
};

}  // namespace

FlatText to_json(Budget& budget, const Value& value, const JsonStyle& style) {
  JsonWriter writer(budget, style);
  writer.value(value, 0);
  return writer.take();
}

}  // namespace ashlar::tmpl
