// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "text/template/filters/format.h"
#include "text/template/run/access.h"
#include "text/template/values/search.h"
#include "text/template/values/text_ops.h"
#include "text/template/values/utf8.h"

namespace ashlar::tmpl {
namespace {

/// The part of a string that find(), count() and startswith() look at: their [start, end) in characters, as bytes.
struct Window {
  std::int64_t start = 0;  ///< in characters
  std::string_view text;
  bool valid = true;  ///< false when start lies beyond the end, where not even "" is found
};

Window window(Budget& budget, const Text& self, const Bound& bound, std::size_t index) {
  budget.work(self.bytes.size());
  const auto size = static_cast<std::int64_t>(self.length);
  const auto clip = [&](std::int64_t at) { return at < 0 ? std::max<std::int64_t>(0, at + size) : at; };
  Window out;
  out.start = bound.given(index) ? clip(bound.integer(index, 0)) : 0;
  const std::int64_t end = std::min(size, bound.given(index + 1) ? clip(bound.integer(index + 1, size)) : size);
  out.valid = out.start <= end;
  if (!out.valid) return out;
  const auto offset = [&](std::int64_t at) {
    return self.ascii() ? static_cast<std::size_t>(at) : byte_offset(self.bytes, static_cast<std::size_t>(at));
  };
  const std::size_t from = offset(out.start);
  out.text = std::string_view(self.bytes).substr(from, offset(end) - from);
  return out;
}

Value find_from(Budget& budget, const Value& self, const Arguments& arguments, bool backward, bool must) {
  const Bound bound("find", arguments, {"sub", "start", "end"}, 1);
  const std::string& needle = need_string(bound.at(0), "find()");
  const Window where = window(budget, self.as_text(), bound, 1);
  std::size_t hit = std::string_view::npos;
  if (where.valid)
    hit = !backward        ? find_bytes(where.text, needle)
          : needle.empty() ? where.text.size()
                           : rfind_bytes(where.text, needle);
  if (hit != std::string_view::npos)
    return Value(where.start + static_cast<std::int64_t>(count_code_points(where.text.substr(0, hit))));
  if (must) fail("substring not found");
  return Value(std::int64_t{-1});
}

Value find(Budget& b, const Value& s, const Arguments& a) { return find_from(b, s, a, false, false); }
Value rfind(Budget& b, const Value& s, const Arguments& a) { return find_from(b, s, a, true, false); }
Value index(Budget& b, const Value& s, const Arguments& a) { return find_from(b, s, a, false, true); }
Value rindex(Budget& b, const Value& s, const Arguments& a) { return find_from(b, s, a, true, true); }

Value count(Budget& budget, const Value& self, const Arguments& arguments) {
  const Bound bound("count", arguments, {"sub", "start", "end"}, 1);
  const std::string& needle = need_string(bound.at(0), "count()");
  const Window where = window(budget, self.as_text(), bound, 1);
  if (!where.valid) return Value(std::int64_t{0});
  if (needle.empty()) return Value(static_cast<std::int64_t>(count_code_points(where.text)) + 1);
  std::int64_t found = 0;
  for (std::size_t at = 0; (at = find_bytes(where.text, needle, at)) != std::string_view::npos; at += needle.size())
    ++found;
  return Value(found);
}

Value affix(Budget& budget, const Value& self, const Arguments& arguments, bool front) {
  const char* name = front ? "startswith()" : "endswith()";
  const Bound bound(name, arguments, {"prefix", "start", "end"}, 1);
  const Window where = window(budget, self.as_text(), bound, 1);
  const auto matches = [&](const Value& candidate) {
    const std::string& part = need_string(candidate, name);
    if (!where.valid || part.size() > where.text.size()) return false;
    return where.text.substr(front ? 0 : where.text.size() - part.size(), part.size()) == part;
  };
  if (!bound.at(0).is(Kind::kTuple)) return Value(matches(bound.at(0)));
  const auto& choices = bound.at(0).as_items();
  return Value(std::any_of(choices.begin(), choices.end(), matches));
}

Value startswith(Budget& b, const Value& s, const Arguments& a) { return affix(b, s, a, true); }
Value endswith(Budget& b, const Value& s, const Arguments& a) { return affix(b, s, a, false); }

Value strip_sides(Budget& budget, const Value& self, const Arguments& arguments, bool left, bool right) {
  const Bound bound("strip", arguments, {"chars"});
  const std::string* chars = bound.given(0) ? &need_string(bound.at(0), "strip()") : nullptr;
  budget.work(chars != nullptr ? chars->size() * 8 : 0);
  return make_part(budget, self.as_text(), strip(self.as_string(), chars, left, right));
}

Value strip_both(Budget& b, const Value& s, const Arguments& a) { return strip_sides(b, s, a, true, true); }
Value lstrip(Budget& b, const Value& s, const Arguments& a) { return strip_sides(b, s, a, true, false); }
Value rstrip(Budget& b, const Value& s, const Arguments& a) { return strip_sides(b, s, a, false, true); }

Value split_from(Budget& budget, const Value& self, const Arguments& arguments, bool backward) {
  const Bound bound("split", arguments, {"sep", "maxsplit"});
  const std::int64_t limit = bound.integer(1, -1);
  const Text& whole = self.as_text();
  const std::string& text = whole.bytes;
  budget.work(text.size());
  if (!bound.given(0))
    return make_parts(budget, whole, backward ? rsplit_space(text, limit) : split_space(text, limit));
  const std::string& separator = need_string(bound.at(0), "split()");
  return make_parts(budget, whole, backward ? rsplit_at(text, separator, limit) : split_at(text, separator, limit));
}

Value split(Budget& b, const Value& s, const Arguments& a) { return split_from(b, s, a, false); }
Value rsplit(Budget& b, const Value& s, const Arguments& a) { return split_from(b, s, a, true); }

Value splitlines(Budget& budget, const Value& self, const Arguments& arguments) {
  const Bound bound("splitlines", arguments, {"keepends"});
  return make_parts(budget, self.as_text(), split_lines(self.as_string(), bound.flag(0)));
}

Value partition_at(Budget& budget, const Value& self, const Arguments& arguments, bool backward) {
  const Bound bound("partition", arguments, {"sep"}, 1);
  const std::string& separator = need_string(bound.at(0), "partition()");
  const Text& text = self.as_text();
  const Value empty = make_string(budget, "", Origin::kTemplate);
  const auto parts = backward ? rsplit_at(text.bytes, separator, 1) : split_at(text.bytes, separator, 1);
  std::vector<Value> out;
  if (parts.size() == 2) {
    const std::string_view between = std::string_view(text.bytes).substr(parts[0].size(), separator.size());
    out = {make_part(budget, text, parts[0]), make_part(budget, text, between), make_part(budget, text, parts[1])};
  } else if (backward) {
    out = {empty, empty, self};
  } else {
    out = {self, empty, empty};
  }
  return make_tuple(budget, std::move(out));
}

Value partition(Budget& b, const Value& s, const Arguments& a) { return partition_at(b, s, a, false); }
Value rpartition(Budget& b, const Value& s, const Arguments& a) { return partition_at(b, s, a, true); }

Value replace_method(Budget& budget, const Value& self, const Arguments& arguments) {
  const Bound bound("replace", arguments, {"old", "new", "count"}, 2);
  const std::string& old = need_string(bound.at(0), "replace()");
  const Text& fresh = need_text(bound.at(1), "replace()");
  return make_string(budget, replace(budget, self.as_text(), old, fresh, bound.integer(2, -1)));
}

Value join(Budget& budget, const Value& self, const Arguments& arguments) {
  const Bound bound("join", arguments, {"iterable"}, 1);
  TextBuilder out(budget);
  bool first = true;
  for (const Value& item : iterate(budget, bound.at(0))) {
    if (!first) out.put(self.as_text());
    first = false;
    out.put(need_text(item, "join()"));
    budget.work(self.as_string().size() + item.as_string().size());
  }
  return make_string(budget, out.take());
}

Value affix_removed(Budget& budget, const Value& self, const Arguments& arguments, bool front) {
  const Bound bound("removeprefix", arguments, {"affix"}, 1);
  const std::string& part = need_string(bound.at(0), "removeprefix()");
  std::string_view text = self.as_string();
  const bool there =
      text.size() >= part.size() && text.substr(front ? 0 : text.size() - part.size(), part.size()) == part;
  if (there) text = front ? text.substr(part.size()) : text.substr(0, text.size() - part.size());
  return make_part(budget, self.as_text(), text);
}

Value removeprefix(Budget& b, const Value& s, const Arguments& a) { return affix_removed(b, s, a, true); }
Value removesuffix(Budget& b, const Value& s, const Arguments& a) { return affix_removed(b, s, a, false); }

template <Align kAlign>
Value padded(Budget& budget, const Value& self, const Arguments& arguments) {
  const Bound bound("center", arguments, {"width", "fillchar"}, 1);
  const SourcedText fill = bound.has(1) ? SourcedText(bound.text(1)) : SourcedText{" ", {}};
  if (count_code_points(fill.bytes) != 1) fail("the fill character must be exactly one character long");
  return make_string(budget, pad(budget, self.as_text(), bound.integer(0, 0), kAlign, fill));
}

Value zfill(Budget& budget, const Value& self, const Arguments& arguments) {
  const Bound bound("zfill", arguments, {"width"}, 1);
  std::string out = pad(budget, self.as_text(), bound.integer(0, 0), Align::kRight, {"0", {}}).bytes;
  const std::size_t zeros = out.size() - self.as_string().size();
  if (zeros > 0 && !self.as_string().empty() && (out[zeros] == '-' || out[zeros] == '+')) std::swap(out[0], out[zeros]);
  return make_string(budget, std::move(out), self.as_text().origins.greatest());
}

template <std::string (*kMap)(std::string_view)>
Value mapped(Budget& budget, const Value& self, const Arguments& arguments) {
  const Bound bound("case method", arguments, {});
  charge_case_mapping(budget, self.as_string());
  return make_string(budget, kMap(self.as_string()), self.as_text().origins.greatest());
}

std::string swap_case(std::string_view text) {
  std::string out;
  for (std::size_t at = 0, size = 0; at < text.size(); at += size) {
    const char32_t code = decode_at(text, at, size);
    if (is_upper(code)) {
      append_lower(out, code);
    } else {
      append_upper(out, code);
    }
  }
  return out;
}

/// True for a string, not empty, whose every character satisfies kTest.
template <bool (*kTest)(char32_t)>
Value every(Budget& budget, const Value& self, const Arguments& arguments) {
  const Bound bound("character test", arguments, {});
  const std::string& text = self.as_string();
  charge_case_mapping(budget, text);
  for (std::size_t at = 0, size = 0; at < text.size(); at += size)
    if (!kTest(decode_at(text, at, size))) return Value(false);
  return Value(!text.empty());
}

bool is_alnum(char32_t code) { return is_alpha(code) || is_digit(code); }

/// islower and isupper: at least one cased character, and none of the other case.
template <bool (*kWanted)(char32_t), bool (*kOther)(char32_t)>
Value all_cased(Budget& budget, const Value& self, const Arguments& arguments) {
  const Bound bound("case test", arguments, {});
  const std::string& text = self.as_string();
  charge_case_mapping(budget, text);
  bool any = false;
  for (std::size_t at = 0, size = 0; at < text.size(); at += size) {
    const char32_t code = decode_at(text, at, size);
    if (kOther(code)) return Value(false);
    any |= kWanted(code);
  }
  return Value(any);
}

Value isascii(Budget&, const Value& self, const Arguments&) {
  const std::string& text = self.as_string();
  return Value(std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; }));
}

constexpr MethodEntry kMethods[] = {
    {"capitalize", mapped<capitalize>},
    {"casefold", mapped<to_lower>},
    {"center", padded<Align::kCenter>},
    {"count", count},
    {"endswith", endswith},
    {"find", find},
    {"format", format_braces},
    {"index", index},
    {"isalnum", every<is_alnum>},
    {"isalpha", every<is_alpha>},
    {"isascii", isascii},
    {"isdecimal", every<is_digit>},
    {"isdigit", every<is_digit>},
    {"islower", all_cased<is_lower, is_upper>},
    {"isnumeric", every<is_digit>},
    {"isspace", every<is_space>},
    {"isupper", all_cased<is_upper, is_lower>},
    {"join", join},
    {"ljust", padded<Align::kLeft>},
    {"lower", mapped<to_lower>},
    {"lstrip", lstrip},
    {"partition", partition},
    {"removeprefix", removeprefix},
    {"removesuffix", removesuffix},
    {"replace", replace_method},
    {"rfind", rfind},
    {"rindex", rindex},
    {"rjust", padded<Align::kRight>},
    {"rpartition", rpartition},
    {"rsplit", rsplit},
    {"rstrip", rstrip},
    {"split", split},
    {"splitlines", splitlines},
    {"startswith", startswith},
    {"strip", strip_both},
    {"swapcase", mapped<swap_case>},
    {"title", mapped<title_case>},
    {"upper", mapped<to_upper>},
    {"zfill", zfill},
};

}  // namespace

const MethodEntry* find_string_method(std::string_view name) {
  for (const MethodEntry& method : kMethods)
    if (method.name == name) return &method;
  return nullptr;
}

}  // namespace ashlar::tmpl
