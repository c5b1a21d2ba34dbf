// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/schema/json_values.h"

#include <algorithm>
#include <utility>

#include "text/grammar/schema/number_ranges.h"
#include "text/grammar/token_trie.h"
#include "text/tokenizer/utf8.h"

namespace ashlar::grammar {
namespace {

constexpr int32_t kIndent = 40;       // spaces; tabs a quarter of it
constexpr size_t kCharsOfARule = 64;  // of a name, so that a long one nests no deeper
constexpr std::pair<char, char> kShortEscapes[] = {{'"', '"'},  {'\\', '\\'}, {'\b', 'b'}, {'\f', 'f'},
                                                   {'\n', 'n'}, {'\r', 'r'},  {'\t', 't'}};

CodePointSet plain_chars() { return CodePointSet({{0x20, CodePointSet::kMax}}).without({{'"', '"'}, {'\\', '\\'}}); }

ByteSet among(std::string_view bytes) {
  ByteSet set;
  for (const char c : bytes) set.set(static_cast<unsigned char>(c));
  return set;
}

std::u32string decoded(std::string_view text) {
  std::u32string out;
  for (size_t at = 0; at < text.size();) {
    const text::Utf8Unit unit = text::utf8_at(text, at);
    out += unit.code_point;
    at += unit.length;
  }
  return out;
}

}  // namespace

std::string json_text(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

// A rule of its own for each thing, made when it is first needed.
Expr JsonValues::once(int32_t which, Expr (JsonValues::*make)()) {
  if (rules_[which] == UINT32_MAX) {
    rules_[which] = builder_.declare("JSON");
    builder_.define(rules_[which], (this->*make)());
  }
  return builder_.call(rules_[which]);
}

Expr JsonValues::space() { return once(kSpace, &JsonValues::make_space); }
Expr JsonValues::number() { return once(kNumber, &JsonValues::make_number); }
Expr JsonValues::object() { return once(kObject, &JsonValues::make_object); }
Expr JsonValues::array() { return once(kArray, &JsonValues::make_array); }
Expr JsonValues::value() { return once(kValue, &JsonValues::make_value); }

Expr JsonValues::short_space() { return builder_.optional(builder_.literal(" ")); }
Expr JsonValues::comma() { return builder_.sequence({builder_.literal(","), space()}); }
Expr JsonValues::boolean() { return builder_.strings({"true", "false"}); }
Expr JsonValues::make_number() { return any_number(builder_); }

Expr JsonValues::make_space() {
  const Expr indent = builder_.alternatives({builder_.repeat(builder_.bytes(among(" ")), 0, kIndent),
                                             builder_.repeat(builder_.bytes(among("\t")), 1, kIndent / 4)});
  return builder_.alternatives(
      {builder_.empty(), builder_.literal(" "), builder_.sequence({builder_.literal("\n"), indent})});
}

// \u escapes: anything but surrogates, or a whole pair of them.
Expr JsonValues::make_char() {
  const auto hex = [this](int64_t n) { return builder_.repeat(builder_.bytes(among("0123456789abcdefABCDEF")), n, n); };
  const Expr not_d = builder_.sequence({builder_.bytes(among("0123456789abcefABCEF")), hex(3)});
  const Expr below = builder_.sequence({builder_.bytes(among("dD")), builder_.bytes(among("01234567")), hex(2)});
  const Expr pair =
      builder_.sequence({builder_.bytes(among("dD")), builder_.bytes(among("89abAB")), hex(2), builder_.literal("\\u"),
                         builder_.bytes(among("dD")), builder_.bytes(among("cdefCDEF")), hex(2)});
  const Expr unicode = builder_.sequence({builder_.literal("u"), builder_.alternatives({not_d, below, pair})});
  const Expr escape = builder_.sequence(
      {builder_.literal("\\"), builder_.alternatives({builder_.bytes(among("\"\\/bfnrt")), unicode})});
  return builder_.alternatives({builder_.chars(plain_chars()), escape});
}

Expr JsonValues::string(int64_t min, int64_t max) {
  const Expr quote = builder_.literal("\"");
  return builder_.sequence({quote, builder_.repeat(once(kChar, &JsonValues::make_char), min, max), quote});
}

Expr JsonValues::char_of(const CodePointSet& set) {
  if (set.ranges().size() == 1 && set.ranges()[0].first == set.ranges()[0].second) {
    const uint32_t only = set.ranges()[0].first;  // the usual case, quickly
    if (only < 0x7F && TokenTrie::is_plain(static_cast<uint8_t>(only))) return builder_.chars(set);
  }
  std::vector<Expr> ways;
  const CodePointSet plain = set.intersection(plain_chars());
  if (!plain.empty()) ways.push_back(builder_.chars(plain));
  std::vector<std::string> escapes;
  for (const auto& [code, letter] : kShortEscapes) {
    if (set.contains(static_cast<unsigned char>(code))) escapes.push_back(std::string("\\") + letter);
  }
  for (uint32_t code = 0; code < 0x20; ++code) {
    const bool has_short = std::any_of(std::begin(kShortEscapes), std::end(kShortEscapes),
                                       [code](const auto& pair) { return static_cast<uint32_t>(pair.first) == code; });
    if (has_short || !set.contains(code)) continue;
    escapes.push_back(std::string("\\u00") + (code < 16 ? '0' : '1') + "0123456789abcdef"[code % 16]);
  }
  if (!escapes.empty()) ways.push_back(builder_.strings(std::move(escapes)));
  return builder_.alternatives(std::move(ways));
}

Expr JsonValues::string_except(std::vector<std::string> names) {
  std::vector<std::u32string> wide;
  for (const std::string& name : names) wide.push_back(decoded(name));
  std::sort(wide.begin(), wide.end());
  wide.erase(std::unique(wide.begin(), wide.end()), wide.end());
  const Expr any = builder_.repeat(char_of(CodePointSet::all()), 0, -1);
  if (wide.empty()) return builder_.sequence({builder_.literal("\""), any, builder_.literal("\"")});
  Differing differing = {std::move(wide), any, {}};
  const size_t count = differing.sorted.size();
  return builder_.sequence({builder_.literal("\""), different_from(differing, 0, count, 0)});
}

// What may follow the first `at` characters, which names[from .. to) share, so that none of these names results. Goes
// deeper only where they part.
Expr JsonValues::different_from(Differing& names, size_t from, size_t to, size_t at) {
  const std::u32string& low = names.sorted[from];
  const std::u32string& high = names.sorted[to - 1];
  size_t same = at;
  while (same < low.size() && same < high.size() && low[same] == high[same]) ++same;
  std::vector<Expr> ways;
  std::vector<CodePointSet::Range> expected;
  const bool is_name = low.size() == same;
  for (size_t i = from + (is_name ? 1 : 0); i < to;) {
    const char32_t next = names.sorted[i][same];
    size_t end = i + 1;
    while (end < to && names.sorted[end][same] == next) ++end;
    expected.emplace_back(next, next);
    ways.push_back(builder_.sequence({char_of({{next, next}}), different_from(names, i, end, same + 1)}));
    i = end;
  }
  if (!is_name) ways.push_back(builder_.literal("\""));
  ways.push_back(other_than(names, CodePointSet(std::move(expected))));
  Expr rest = builder_.alternatives(std::move(ways));
  for (size_t i = same; i-- > at;) {
    if (i % kCharsOfARule == 0) rest = builder_.rule({}, rest);
    const CodePointSet next = {{low[i], low[i]}};
    rest = builder_.alternatives(
        {builder_.sequence({char_of(next), rest}), builder_.literal("\""), other_than(names, next)});
  }
  return rest;
}

// A character that is none of these, and whatever may follow.
Expr JsonValues::other_than(Differing& names, const CodePointSet& expected) {
  const auto known = names.others.find(expected);
  if (known != names.others.end()) return builder_.call(known->second);
  const Rule made = builder_.declare({});
  builder_.define(made, builder_.sequence({char_of(expected.complement()), names.any, builder_.literal("\"")}));
  names.others.emplace(expected, made);
  return builder_.call(made);
}

Expr JsonValues::constant(const Json& value) {
  if (!value.is_structured() || value.empty()) return builder_.literal(json_text(value));
  std::vector<Expr> parts = {builder_.literal(value.is_object() ? "{" : "["), space()};
  for (const auto& [name, part] : value.items()) {
    if (parts.size() > 2) parts.push_back(comma());
    if (value.is_object()) parts.insert(parts.end(), {builder_.literal(json_text(name) + ":"), short_space()});
    parts.push_back(constant(part));
  }
  parts.insert(parts.end(), {space(), builder_.literal(value.is_object() ? "}" : "]")});
  return builder_.sequence(std::move(parts));
}

Expr JsonValues::make_object() {
  const Expr member =
      builder_.rule("member", builder_.sequence({string(), builder_.literal(":"), short_space(), value()}));
  const Expr more = builder_.repeat(builder_.sequence({comma(), member}), 0, -1);
  const Expr members = builder_.optional(builder_.sequence({member, more, space()}));
  return builder_.sequence({builder_.literal("{"), space(), members, builder_.literal("}")});
}

Expr JsonValues::make_array() {
  const Expr more = builder_.repeat(builder_.sequence({comma(), value()}), 0, -1);
  const Expr items = builder_.optional(builder_.sequence({value(), more, space()}));
  return builder_.sequence({builder_.literal("["), space(), items, builder_.literal("]")});
}

Expr JsonValues::make_value() {
  return builder_.alternatives({object(), array(), string(), number(), boolean(), builder_.literal("null")});
}

}  // namespace ashlar::grammar
