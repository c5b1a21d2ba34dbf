// SPDX-License-Identifier: Apache-2.0
#include "text/template/filters/filters.h"
#include "text/template/run/interpreter.h"
#include "text/template/values/print.h"
#include "text/template/values/text_ops.h"
#include "text/template/values/utf8.h"

namespace ashlar::tmpl {
namespace {

/// `count` spaces, for an indentation given as a number.
std::string spaces(Budget& budget, std::int64_t count) {
  if (count <= 0) return "";
  budget.string_size(static_cast<std::uint64_t>(count));
  return std::string(static_cast<std::size_t>(count), ' ');
}

Value indent(Interpreter& in, const Value& value, const Arguments& arguments) {
  const Bound bound("indent", arguments, {"width", "first", "blank"});
  const Value input = text_of(in.budget(), value);
  Budget& budget = in.budget();
  const bool text_width = bound.has(0) && bound.at(0).is(Kind::kString);
  const SourcedText margin =
      text_width ? SourcedText(bound.text(0)) : SourcedText{spaces(budget, bound.integer(0, 4)), {}};
  const bool blank = bound.flag(2);
  SourcedText text = need_text(input, "indent");
  const Origin newline = text.origins.greatest();  // most often it was the text's own
  text.append("\n", newline);                      // so that a last line without a newline counts too
  budget.work(text.bytes.size());
  TextBuilder out(budget);
  if (bound.flag(1)) out.put(margin);
  bool first = true;
  for (const std::string_view line : split_lines(text.bytes)) {
    if (!first) out.put("\n", newline);
    if (!first && (blank || !line.empty())) out.put(margin);
    first = false;
    out.put_part(text, line);
    budget.work(line.size() + margin.bytes.size());
  }
  return make_string(budget, out.take(), input.as_text().markup);
}

Value center(Interpreter& in, const Value& input, const Arguments& arguments) {
  const Bound bound("center", arguments, {"width"});
  const Value text = to_str(in.budget(), input);
  return make_string(in.budget(), pad(in.budget(), text.as_text(), bound.integer(0, 80), Align::kCenter));
}

Value truncate(Interpreter& in, const Value& input, const Arguments& arguments) {
  const Bound bound("truncate", arguments, {"length", "killwords", "end", "leeway"});
  Budget& budget = in.budget();
  const SourcedText end = bound.has(2) ? SourcedText(bound.text(2)) : SourcedText{"...", {}};
  const std::int64_t length = bound.integer(0, 255);
  const std::int64_t leeway = bound.given(3) ? bound.integer(3, 5) : 5;
  const auto end_length = static_cast<std::int64_t>(count_code_points(end.bytes));
  if (length < end_length) fail("truncate: expected a length of at least " + std::to_string(end_length));
  if (leeway < 0) fail("truncate: expected a leeway of at least 0");
  if (tmpl::length(input) - leeway <= length) return input;
  const Text& whole = need_text(input, "truncate");
  const std::string& text = whole.bytes;
  budget.work(text.size());
  std::string_view kept =
      std::string_view(text).substr(0, byte_offset(text, static_cast<std::size_t>(length - end_length)));
  if (!bound.flag(1)) kept = kept.substr(0, kept.rfind(' '));
  TextBuilder out(budget);
  out.put_part(whole, kept);
  out.put(end);
  return make_string(budget, out.take());
}

JsonStyle json_style(Interpreter& in, const Bound& bound) {
  JsonStyle style;
  style.ascii = bound.flag(0);
  style.sort_keys = bound.flag(3);
  if (bound.given(1)) {
    style.pretty = true;
    style.item_separator = ",";
    const bool text = bound.at(1).is(Kind::kString);
    style.indent = text ? bound.at(1).as_string() : spaces(in.budget(), bound.integer(1, 0));
    if (text) style.origin = bound.text(1).origins.greatest();
  }
  if (bound.given(2)) {
    const std::vector<Value> pair = iterate(in.budget(), bound.at(2));
    if (pair.size() != 2) fail("tojson: separators must be a pair of strings");
    style.item_separator = need_string(pair[0], "tojson");
    style.key_separator = need_string(pair[1], "tojson");
    for (const Value& each : pair) style.origin = std::max(style.origin, each.as_text().origins.greatest());
  }
  return style;
}

/// json.dumps with its plain separators, as transformers replaces Jinja's own HTML-safe filter.
Value tojson(Interpreter& in, const Value& input, const Arguments& arguments) {
  const Bound bound("tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  FlatText text = to_json(in.budget(), input, json_style(in, bound));
  return make_string(in.budget(), std::move(text.bytes), text.origin);
}

constexpr FilterEntry kLayoutFilters[] = {
    {"indent", indent}, {"center", center}, {"truncate", truncate}, {"tojson", tojson}};

}  // namespace

FilterFn find_layout_filter(std::string_view name) { return find_in(kLayoutFilters, name); }

}  // namespace ashlar::tmpl
