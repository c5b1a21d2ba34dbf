#include "text/template/filters.h"
#include "text/template/interpreter.h"
#include "text/template/print.h"
#include "text/template/text_ops.h"
#include "text/template/utf8.h"

namespace ashlar::tmpl {
namespace {

/// `count` spaces, for an indentation given as a number.
std::string spaces(Budget& budget, std::int64_t count) {
  if (count <= 0) return "";
  budget.string_size(static_cast<std::uint64_t>(count));
  return std::string(static_cast<std::size_t>(count), ' ');
}

Value indent(Interpreter& in, const Value& input, const Arguments& arguments) {
  const Bound bound("indent", arguments, {"width", "first", "blank"});
  Budget& budget = in.budget();
  const bool text_width = bound.has(0) && bound.at(0).is(Kind::kString);
  const std::string margin = text_width ? bound.at(0).as_string() : spaces(budget, bound.integer(0, 4));
  const bool blank = bound.flag(2);
  const std::string text = need_string(input, "indent") + "\n";  // so that a last line without a newline counts too
  budget.work(text.size());
  std::string out = bound.flag(1) ? margin : "";
  bool first = true;
  for (const std::string_view line : split_lines(text)) {
    if (!first) out += "\n";
    if (!first && (blank || !line.empty())) out += margin;
    first = false;
    out += line;
    budget.work(line.size() + margin.size());
    if (out.size() > budget.limits().string_bytes) budget.string_size(out.size());
  }
  return make_string(budget, std::move(out), input.as_text().markup);
}

Value center(Interpreter& in, const Value& input, const Arguments& arguments) {
  const Bound bound("center", arguments, {"width"});
  const Value text = make_string(in.budget(), to_str(in.budget(), input));
  return make_string(in.budget(), pad(in.budget(), text.as_text(), bound.integer(0, 80), Align::kCenter));
}

Value truncate(Interpreter& in, const Value& input, const Arguments& arguments) {
  const Bound bound("truncate", arguments, {"length", "killwords", "end", "leeway"});
  Budget& budget = in.budget();
  const std::string end = bound.string(2, "...");
  const std::int64_t length = bound.integer(0, 255);
  const std::int64_t leeway = bound.given(3) ? bound.integer(3, 5) : 5;
  const auto end_length = static_cast<std::int64_t>(count_code_points(end));
  if (length < end_length) fail("truncate: expected a length of at least " + std::to_string(end_length));
  if (leeway < 0) fail("truncate: expected a leeway of at least 0");
  if (tmpl::length(input) - leeway <= length) return input;
  const std::string& text = need_string(input, "truncate");
  budget.work(text.size());
  std::string_view kept =
      std::string_view(text).substr(0, byte_offset(text, static_cast<std::size_t>(length - end_length)));
  if (!bound.flag(1)) kept = kept.substr(0, kept.rfind(' '));
  return make_string(budget, std::string(kept) + end);
}

JsonStyle json_style(Interpreter& in, const Bound& bound) {
  JsonStyle style;
  style.ascii = bound.flag(0);
  style.sort_keys = bound.flag(3);
  if (bound.given(1)) {
    style.pretty = true;
    style.item_separator = ",";
    style.indent = bound.at(1).is(Kind::kString) ? bound.at(1).as_string() : spaces(in.budget(), bound.integer(1, 0));
  }
  if (bound.given(2)) {
    const std::vector<Value> pair = iterate(in.budget(), bound.at(2));
    if (pair.size() != 2) fail("tojson: separators must be a pair of strings");
    style.item_separator = need_string(pair[0], "tojson");
    style.key_separator = need_string(pair[1], "tojson");
  }
  return style;
}

/// json.dumps with its plain separators, as transformers replaces Jinja's own HTML-safe filter.
Value tojson(Interpreter& in, const Value& input, const Arguments& arguments) {
  const Bound bound("tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  return make_string(in.budget(), to_json(in.budget(), input, json_style(in, bound)));
}

constexpr FilterEntry kLayoutFilters[] = {
    {"indent", indent}, {"center", center}, {"truncate", truncate}, {"tojson", tojson}};

}  // namespace

FilterFn find_layout_filter(std::string_view name) { return find_in(kLayoutFilters, name); }

}  // namespace ashlar::tmpl
