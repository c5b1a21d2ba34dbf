// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "text/template/filters/format.h"
#include "text/template/run/access.h"
#include "text/template/values/number_format.h"
#include "text/template/values/print.h"
#include "text/template/values/text_ops.h"
#include "text/template/values/utf8.h"

namespace ashlar::tmpl {
namespace {

FieldStyle parse_spec(std::string_view spec) {
  FieldStyle style;
  std::size_t at = 0;
  const auto peek = [&](std::string_view any) {
    return at < spec.size() && any.find(spec[at]) != std::string_view::npos;
  };
  std::size_t fill_size = 0;
  if (!spec.empty()) decode_at(spec, 0, fill_size);
  if (fill_size > 0 && fill_size < spec.size() &&
      std::string_view("<>^=").find(spec[fill_size]) != std::string_view::npos) {
    style.fill = std::string(spec.substr(0, fill_size));
    style.align = spec[fill_size];
    at = fill_size + 1;
  } else if (peek("<>^=")) {
    style.align = spec[at++];
  }
  if (peek("+- ")) {
    style.sign = spec[at++];
    style.signed_field = true;
  }
  if (peek("#")) style.alternate = spec[at++] == '#';
  if (peek("0")) {
    ++at;
    if (style.align == '\0') {
      style.align = '=';
      style.fill = "0";
    }
  }
  style.width = std::max<std::int64_t>(0, read_number(spec, at));
  if (peek(",_")) style.grouping = spec[at++];
  if (peek(".")) {
    ++at;
    style.precision = read_number(spec, at);
    if (style.precision < 0) fail("format specifier is missing the precision");
  }
  if (at < spec.size()) style.type = spec[at++];
  if (at < spec.size()) fail("invalid format specifier '" + std::string(spec.substr(0, 40)) + "'");
  return style;
}

[[noreturn]] void fail_type(const FieldStyle& style, const Value& value) {
  fail(std::string("unknown format code '") + style.type + "' for object of type '" + value.type_name() + "'");
}

SourcedText format_float(Budget& budget, FieldStyle style, double value) {
  std::string digits;
  if (style.type == '\0' && style.precision < 0) {
    digits = float_repr(std::fabs(value));
  } else {
    digits = float_digits(value, style.type == '\0' || style.type == 'n' ? 'g' : style.type, style.precision,
                          style.alternate);
    if (style.type == '\0' && digits.find_first_of(".en") == std::string::npos) digits += ".0";
  }
  if (style.grouping != '\0') digits = group_digits(digits, style.grouping, 3);
  return pad_number(budget, style, std::signbit(value), "", digits);
}

int base_of(char type) { return type == 'b' ? 2 : type == 'o' ? 8 : type == 'x' || type == 'X' ? 16 : 10; }

SourcedText format_int(Budget& budget, const FieldStyle& style, const Value& value) {
  if (style.precision >= 0) fail("precision not allowed in integer format specifier");
  const std::int64_t number = value.as_int();
  if (style.type == 'c')
    return pad_text(budget, style, code_character(number), style.align == '\0' ? '>' : style.align);
  const std::uint64_t size = number < 0 ? 0 - static_cast<std::uint64_t>(number) : static_cast<std::uint64_t>(number);
  const int base = base_of(style.type);
  std::string digits = int_digits(size, base, style.type == 'X');
  if (style.grouping != '\0') digits = group_digits(digits, style.grouping, base == 10 ? 3 : 4);
  const std::string prefix = base == 10 || !style.alternate ? "" : std::string("0") + style.type;
  return pad_number(budget, style, number < 0, prefix, digits);
}

SourcedText format_text(Budget& budget, const FieldStyle& style, const Value& value) {
  if (style.type != '\0' && style.type != 's') fail_type(style, value);
  if (style.signed_field || style.alternate || style.grouping != '\0' || (style.align == '=' && style.fill != "0"))
    fail("sign, '#', '=' and grouping are not allowed in the format of a string");
  const Text& text = value.as_text();
  std::string_view shown = text.bytes;
  if (style.precision >= 0) shown = shown.substr(0, byte_offset(shown, static_cast<std::size_t>(style.precision)));
  return pad_text(budget, style, {std::string(shown), text.origins_of(shown)},
                  style.align == '\0' || style.align == '=' ? '<' : style.align);
}

/// Renders text.format(arguments).
class BraceFormat {
 public:
  /// `whole` is the text that is given to run().
  BraceFormat(Budget& budget, const Text& whole, const Arguments& arguments)
      : budget_(budget), whole_(whole), arguments_(arguments) {}

  /// `depth`: fields may stand in the specification of a field, but not deeper.
  SourcedText run(std::string_view text, int depth) {
    TextBuilder out(budget_);
    budget_.work(text.size());
    for (std::size_t at = 0; at < text.size();) {
      const char c = text[at];
      if ((c == '{' || c == '}') && at + 1 < text.size() && text[at + 1] == c) {
        out.put_part(whole_, text.substr(at, 1));
        at += 2;
      } else if (c == '}') {
        fail("single '}' encountered in format string");
      } else if (c == '{') {
        const std::size_t end = field_end(text, at + 1);
        out.put(field(text.substr(at + 1, end - at - 1), depth));
        at = end + 1;
      } else {
        const std::size_t end = std::min(text.find_first_of("{}", at), text.size());
        out.put_part(whole_, text.substr(at, end - at));
        at = end;
      }
    }
    return out.take();
  }

 private:
  static std::size_t field_end(std::string_view text, std::size_t at) {
    for (int open = 1; at < text.size(); ++at) {
      if (text[at] == '{') ++open;
      if (text[at] == '}' && --open == 0) return at;
    }
    fail("single '{' encountered in format string");
  }

  SourcedText field(std::string_view field, int depth) {
    if (depth > 1) fail("max string recursion exceeded in a format specification");
    const std::size_t name_end = std::min(field.find_first_of("!:"), field.size());
    const Value value = look_up(field.substr(0, name_end));
    std::string_view rest = field.substr(name_end);
    char conversion = '\0';
    if (!rest.empty() && rest[0] == '!') {
      if (rest.size() < 2 || (rest.size() > 2 && rest[2] != ':')) fail("expected ':' after conversion specifier");
      conversion = rest[1];
      rest.remove_prefix(2);
    }
    if (!rest.empty()) rest.remove_prefix(1);
    const SourcedText spec = run(rest, depth + 1);
    if (conversion == '\0') return format_spec(budget_, value, spec);
    if (conversion != 's' && conversion != 'r') fail("unknown conversion specifier in a format string");
    if (conversion == 's') return format_spec(budget_, to_str(budget_, value), spec);
    FlatText text = to_repr(budget_, value);
    return format_spec(budget_, make_string(budget_, std::move(text.bytes), text.origin), spec);
  }

  Value look_up(std::string_view path) {
    const std::size_t end = std::min(path.find_first_of(".["), path.size());
    Value value = first(path.substr(0, end));
    for (std::size_t at = end; at < path.size();) {
      if (path[at] == '.') {
        const std::size_t stop = std::min(path.find_first_of(".[", at + 1), path.size());
        if (stop == at + 1) fail("empty attribute in format string");
        value = get_attribute(budget_, value, path.substr(at + 1, stop - at - 1));
        at = stop;
        continue;
      }
      const std::size_t stop = path.find(']', at);
      if (path[at] != '[' || stop == std::string_view::npos) fail("malformed field in format string");
      const std::string_view key = path.substr(at + 1, stop - at - 1);
      std::size_t digits = 0;
      const std::int64_t index = read_number(key, digits);
      value =
          get_item(budget_, value, digits == key.size() && index >= 0 ? Value(index) : make_part(budget_, whole_, key));
      at = stop + 1;
    }
    return value;
  }

  Value first(std::string_view name) {
    std::size_t digits = 0;
    std::int64_t index = read_number(name, digits);
    if (digits < name.size()) {
      const Value* value = arguments_.find(name);
      if (value == nullptr) fail("format argument '" + std::string(name.substr(0, 40)) + "' is missing");
      return *value;
    }
    const bool automatic = index < 0;
    if (automatic ? next_ < 0 : next_ > 0) fail("cannot mix automatic field numbering with manual field specification");
    if (automatic) {
      index = next_++;
    } else {
      next_ = -1;
    }
    if (static_cast<std::size_t>(index) >= arguments_.positional.size())
      fail("replacement index " + std::to_string(index) + " out of range for positional arguments");
    return arguments_.positional[static_cast<std::size_t>(index)];
  }

  Budget& budget_;
  const Text& whole_;
  const Arguments& arguments_;
  std::int64_t next_ = 0;  // number of the next {}; negative once {0} was used
};

}  // namespace

SourcedText format_spec(Budget& budget, const Value& value, const SourcedText& spec) {
  if (spec.bytes.empty()) return to_str(budget, value).as_text();
  FieldStyle style = parse_spec(spec.bytes);
  style.origin = spec.origins.greatest();
  if (value.is(Kind::kString)) return format_text(budget, style, value);
  if (!value.is_number()) fail("unsupported format string passed to " + value.type_name() + ".__format__");
  const bool float_type = style.type != '\0' && std::string_view("eEfFgG%").find(style.type) != std::string_view::npos;
  if (float_type || (value.is(Kind::kFloat) && (style.type == '\0' || style.type == 'n')))
    return format_float(budget, style, value.as_number());
  const bool int_type = style.type == '\0' || std::string_view("bcdoxXn").find(style.type) != std::string_view::npos;
  if (!int_type || !value.is_integral()) fail_type(style, value);
  return format_int(budget, style, value);
}

Value format_braces(Budget& budget, const Value& text, const Arguments& arguments) {
  return make_string(budget, BraceFormat(budget, text.as_text(), arguments).run(text.as_string(), 0),
                     text.as_text().markup);
}

}  // namespace ashlar::tmpl
