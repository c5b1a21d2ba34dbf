// SPDX-License-Identifier: Apache-2.0
#include "text/template/filters/filters.h"
#include "text/template/filters/format.h"
#include "text/template/run/interpreter.h"
#include "text/template/values/dict.h"
#include "text/template/values/escape.h"
#include "text/template/values/print.h"
#include "text/template/values/text_ops.h"
#include "text/template/values/utf8.h"

namespace ashlar::tmpl {
namespace {

template <std::string (*kMap)(std::string_view)>
Value mapped(Interpreter& in, const Value& input, const Arguments& arguments) {
  const Bound bound("case filter", arguments, {});
  const Value text = to_str(in.budget(), input);
  charge_case_mapping(in.budget(), text.as_string());
  return make_string(in.budget(), kMap(text.as_string()), text.as_text().origins.greatest());
}

bool begins_word(char32_t code) {
  return is_space(code) || code == '-' || code == '(' || code == '{' || code == '[' || code == '<';
}

/// Jinja's title differs from str.title: words begin after white space and a few brackets only.
std::string title_words(std::string_view text) {
  std::string out;
  bool inside = false;
  for (std::size_t at = 0, size = 0; at < text.size(); at += size) {
    const char32_t code = decode_at(text, at, size);
    if (begins_word(code)) {
      append_utf8(out, code);
      inside = false;
    } else if (inside) {
      append_lower(out, code);
    } else {
      append_upper(out, code);
      inside = true;
    }
  }
  return out;
}

Value trim(Interpreter& in, const Value& input, const Arguments& arguments) {
  const Bound bound("trim", arguments, {"chars"});
  const Value text = to_str(in.budget(), input);
  const std::string* chars = bound.given(0) ? &need_string(bound.at(0), "trim") : nullptr;
  in.budget().work(chars != nullptr ? chars->size() * 8 : 0);
  return make_part(in.budget(), text.as_text(), strip(text.as_string(), chars, true, true));
}

Value replace_filter(Interpreter& in, const Value& input, const Arguments& arguments) {
  const Bound bound("replace", arguments, {"old", "new", "count"}, 2);
  const Value text = to_str(in.budget(), input);
  const Value old = to_str(in.budget(), bound.at(0));
  const Value fresh = to_str(in.budget(), bound.at(1));
  const std::int64_t count = bound.given(2) ? bound.integer(2, -1) : -1;
  return make_string(in.budget(), replace(in.budget(), text.as_text(), old.as_string(), fresh.as_text(), count));
}

Value string(Interpreter& in, const Value& input, const Arguments& arguments) {
  const Bound bound("string", arguments, {});
  return to_str(in.budget(), input);
}

Value safe(Interpreter& in, const Value& input, const Arguments& arguments) {
  const Bound bound("safe", arguments, {});
  return make_string(in.budget(), to_str(in.budget(), input).as_text(), true);
}

Value force_escape(Interpreter& in, const Value& input, const Arguments& arguments) {
  const Bound bound("escape", arguments, {});
  const Value text = to_str(in.budget(), input);
  in.budget().string_size(text.as_string().size() * 5);
  return make_string(in.budget(), escape_html(text.as_string()), text.as_text().origins.greatest(), true);
}

Value escape(Interpreter& in, const Value& input, const Arguments& arguments) {
  return input.is(Kind::kString) && input.as_text().markup ? input : force_escape(in, input, arguments);
}

Value format(Interpreter& in, const Value& input, const Arguments& arguments) {
  if (!arguments.positional.empty() && !arguments.named.empty())
    fail("format cannot take positional and keyword arguments at the same time");
  const Value text = string(in, input, {});
  if (arguments.named.empty()) return format_percent(in.budget(), text, make_tuple(in.budget(), arguments.positional));
  Dict dict;
  for (const auto& [name, value] : arguments.named)
    dict.set(in.budget(), make_string(in.budget(), name, arguments.names), value);
  return format_percent(in.budget(), text, make_dict(std::move(dict)));
}

Value wordcount(Interpreter& in, const Value& input, const Arguments& arguments) {
  const Bound bound("wordcount", arguments, {});
  const Value shown = to_str(in.budget(), input);
  const std::string& text = shown.as_string();
  charge_case_mapping(in.budget(), text);
  std::int64_t words = 0;
  bool inside = false;
  for (std::size_t at = 0, size = 0; at < text.size(); at += size) {
    const char32_t code = decode_at(text, at, size);
    const bool word = is_alpha(code) || is_digit(code) || code == '_';
    words += word && !inside ? 1 : 0;
    inside = word;
  }
  return Value(words);
}

/// Percent-encoding as urllib does it; `query` encodes slashes too and writes spaces as +.
std::string url_quote(Budget& budget, const std::string& text, bool query) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  budget.string_size(text.size() * 3);
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain =
        byte < 0x80 && (is_alpha(byte) || is_digit(byte) || std::string_view("_.-~").find(c) != std::string_view::npos);
    if (plain || (c == '/' && !query)) {
      out.push_back(c);
    } else if (c == ' ' && query) {
      out.push_back('+');
    } else {
      out += {'%', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return out;
}

Value urlencode(Interpreter& in, const Value& input, const Arguments& arguments) {
  const Bound bound("urlencode", arguments, {});
  Budget& budget = in.budget();
  FlatText out;
  const auto quoted = [&](const Value& value, bool query) {
    const Value text = to_str(budget, value);
    out.include(text.as_text().origins);
    return url_quote(budget, text.as_string(), query);
  };
  if (!input.is(Kind::kDict) && !input.is_sequence()) {
    out.bytes = quoted(input, false);
    return make_string(budget, std::move(out.bytes), out.origin);
  }
  const auto put = [&](const Value& key, const Value& value) {
    if (!out.bytes.empty()) out.bytes += "&";
    out.bytes += quoted(key, true) + "=" + quoted(value, true);
  };
  if (input.is(Kind::kDict)) {
    for (const auto& [key, value] : input.as_dict().entries) put(key, value);
  } else {
    for (const Value& pair : input.as_items()) {
      const std::vector<Value> parts = iterate(budget, pair);
      if (parts.size() != 2) fail("urlencode needs pairs");
      put(parts[0], parts[1]);
    }
  }
  return make_string(budget, std::move(out.bytes), out.origin);
}

constexpr FilterEntry kTextFilters[] = {
    {"upper", mapped<to_upper>},
    {"lower", mapped<to_lower>},
    {"capitalize", mapped<capitalize>},
    {"title", mapped<title_words>},
    {"trim", trim},
    {"replace", replace_filter},
    {"string", string},
    {"safe", safe},
    {"e", escape},
    {"escape", escape},
    {"forceescape", force_escape},
    {"format", format},
    {"wordcount", wordcount},
    {"urlencode", urlencode},
};

}  // namespace

FilterFn find_text_filter(std::string_view name) { return find_in(kTextFilters, name); }

}  // namespace ashlar::tmpl
