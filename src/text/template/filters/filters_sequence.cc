// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "text/template/filters/filters.h"
#include "text/template/run/access.h"
#include "text/template/run/attribute_getter.h"
#include "text/template/values/dict.h"
#include "text/template/values/operators.h"
#include "text/template/values/print.h"
#include "text/template/values/text_ops.h"

namespace ashlar::tmpl {
namespace {

Value length_filter(Interpreter&, const Value& input, const Arguments& arguments) {
  const Bound bound("length", arguments, {});
  return Value(length(input));
}

Value default_filter(Interpreter& in, const Value& input, const Arguments& arguments) {
  const Bound bound("default", arguments, {"default_value", "boolean"});
  if (!input.is_undefined() && (!bound.flag(1) || input.truthy())) return input;
  return bound.has(0) ? bound.at(0) : make_string(in.budget(), "", Origin::kTemplate);
}

Value first(Interpreter& in, const Value& input, const Arguments& arguments) {
  const Bound bound("first", arguments, {});
  if (input.is(Kind::kIterator)) {
    Iterator& iterator = input.as_iterator();
    if (iterator.next < iterator.items.size()) return iterator.items[iterator.next++];
    return Value::undefined("no first item, sequence was empty");
  }
  if (input.is(Kind::kString) || input.is_sequence()) {
    if (length(input) == 0) return Value::undefined("no first item, sequence was empty");
    return input.is_sequence() ? input.as_items().front() : get_item(in.budget(), input, Value(std::int64_t{0}));
  }
  const std::vector<Value> items = iterate(in.budget(), input);
  return items.empty() ? Value::undefined("no first item, sequence was empty") : items.front();
}

Value last(Interpreter& in, const Value& input, const Arguments& arguments) {
  const Bound bound("last", arguments, {});
  if (input.is(Kind::kIterator)) fail("'generator' object is not reversible");
  if (input.is(Kind::kString) && length(input) > 0) return get_item(in.budget(), input, Value(std::int64_t{-1}));
  if (input.is_sequence() && !input.as_items().empty()) return input.as_items().back();
  const std::vector<Value> items = iterate(in.budget(), input);
  return items.empty() ? Value::undefined("no last item, sequence was empty") : items.back();
}

Value list(Interpreter& in, const Value& input, const Arguments& arguments) {
  const Bound bound("list", arguments, {});
  return make_list(in.budget(), iterate(in.budget(), input));
}

Value join(Interpreter& in, const Value& input, const Arguments& arguments) {
  const Bound bound("join", arguments, {"d", "attribute"});
  Budget& budget = in.budget();
  const Value separator = bound.has(0) ? to_str(budget, bound.at(0)) : make_string(budget, "", Origin::kTemplate);
  const AttributeGetter getter(budget, bound.has(1) ? bound.at(1) : Value());
  TextBuilder out(budget);
  bool first_item = true;
  for (const Value& item : iterate(budget, input)) {
    if (!first_item) out.put(separator.as_text());
    first_item = false;
    const Value text = to_str(budget, getter.get(budget, item));
    out.put(text.as_text());
    budget.work(separator.as_string().size() + text.as_string().size());
  }
  return make_string(budget, out.take());
}

Value reverse(Interpreter& in, const Value& input, const Arguments& arguments) {
  const Bound bound("reverse", arguments, {});
  Budget& budget = in.budget();
  if (input.is(Kind::kString)) return get_slice(budget, input, Value(), Value(), Value(std::int64_t{-1}));
  std::vector<Value> items = iterate(budget, input);
  std::reverse(items.begin(), items.end());
  return input.is(Kind::kIterator) ? make_list(budget, std::move(items)) : make_iterator(budget, std::move(items));
}

/// sort's attribute may name several, separated by commas; the key is then a list.
Value sort(Interpreter& in, const Value& input, const Arguments& arguments) {
  const Bound bound("sort", arguments, {"reverse", "case_sensitive", "attribute"});
  Budget& budget = in.budget();
  std::vector<AttributeGetter> getters;
  if (bound.has(2) && bound.at(2).is(Kind::kString)) {
    for (const std::string_view part : split_at(bound.at(2).as_string(), ",", -1))
      getters.emplace_back(budget, make_part(budget, bound.text(2), part));
  } else {
    getters.emplace_back(budget, bound.has(2) ? bound.at(2) : Value());
  }
  std::vector<Value> items = iterate(budget, input);
  std::vector<Value> keys;
  for (const Value& item : items) {
    std::vector<Value> parts;
    for (const AttributeGetter& getter : getters)
      parts.push_back(sort_key(budget, getter.get(budget, item), bound.flag(1)));
    keys.push_back(make_list(budget, std::move(parts)));
  }
  sort_by_keys(budget, keys, items, bound.flag(0));
  return make_list(budget, std::move(items));
}

Value unique(Interpreter& in, const Value& input, const Arguments& arguments) {
  const Bound bound("unique", arguments, {"case_sensitive", "attribute"});
  Budget& budget = in.budget();
  const AttributeGetter getter(budget, bound.has(1) ? bound.at(1) : Value());
  Dict seen;
  std::vector<Value> out;
  for (const Value& item : iterate(budget, input)) {
    const Value key = sort_key(budget, getter.get(budget, item), bound.flag(0));
    if (seen.find(budget, key) != nullptr) continue;
    seen.set(budget, key, Value());
    out.push_back(item);
  }
  return make_iterator(budget, std::move(out));
}

Value items(Interpreter& in, const Value& input, const Arguments& arguments) {
  const Bound bound("items", arguments, {});
  if (!input.is_undefined() && !input.is(Kind::kDict)) fail("can only get item pairs from a mapping");
  std::vector<Value> pairs;
  if (input.is(Kind::kDict))
    for (const auto& [key, value] : input.as_dict().entries) pairs.push_back(make_tuple(in.budget(), {key, value}));
  return make_iterator(in.budget(), std::move(pairs));
}

Value dictsort(Interpreter& in, const Value& input, const Arguments& arguments) {
  const Bound bound("dictsort", arguments, {"case_sensitive", "by", "reverse"});
  Budget& budget = in.budget();
  const std::string by = bound.string(1, "key");
  if (by != "key" && by != "value") fail("dictsort: can only sort by \"key\" or \"value\"");
  if (input.is_undefined()) fail_undefined(input);
  if (!input.is(Kind::kDict)) fail("dictsort expects a dict, got " + input.type_name());
  std::vector<Value> pairs;
  std::vector<Value> keys;
  for (const auto& [key, value] : input.as_dict().entries) {
    pairs.push_back(make_tuple(budget, {key, value}));
    keys.push_back(sort_key(budget, by == "key" ? key : value, bound.flag(0)));
  }
  sort_by_keys(budget, keys, pairs, bound.flag(2));
  return make_list(budget, std::move(pairs));
}

Value batch(Interpreter& in, const Value& input, const Arguments& arguments) {
  const Bound bound("batch", arguments, {"linecount", "fill_with"}, 1);
  Budget& budget = in.budget();
  const std::int64_t size = bound.integer(0, 0);
  std::vector<Value> out;
  std::vector<Value> row;
  for (const Value& item : iterate(budget, input)) {
    if (static_cast<std::int64_t>(row.size()) == size) out.push_back(make_list(budget, std::exchange(row, {})));
    row.push_back(item);
  }
  if (!row.empty()) {
    while (bound.given(1) && static_cast<std::int64_t>(row.size()) < size) {
      budget.step();
      row.push_back(bound.at(1));
    }
    out.push_back(make_list(budget, std::move(row)));
  }
  return make_iterator(budget, std::move(out));
}

Value slice(Interpreter& in, const Value& input, const Arguments& arguments) {
  const Bound bound("slice", arguments, {"slices", "fill_with"}, 1);
  Budget& budget = in.budget();
  const std::int64_t slices = bound.integer(0, 0);
  if (slices == 0) fail("slice: the number of slices must not be zero");
  const std::vector<Value> all = iterate(budget, input);
  const auto size = static_cast<std::int64_t>(all.size());
  std::vector<Value> out;
  std::int64_t from = 0;
  for (std::int64_t i = 0; i < slices; ++i) {
    budget.step();
    const std::int64_t to = from + size / slices + (i < size % slices ? 1 : 0);
    std::vector<Value> part(all.begin() + from, all.begin() + to);
    if (bound.given(1) && i >= size % slices) part.push_back(bound.at(1));
    out.push_back(make_list(budget, std::move(part)));
    from = to;
  }
  return make_iterator(budget, std::move(out));
}

Value group(Budget& budget, Value key, std::vector<Value> members) {
  const Value pair = make_tuple(budget, {std::move(key), make_list(budget, std::move(members))});
  Sequence marked = pair.as_sequence();
  marked.group = true;
  return Value(std::shared_ptr<const Sequence>(std::make_shared<Sequence>(std::move(marked))));
}

Value groupby(Interpreter& in, const Value& input, const Arguments& arguments) {
  const Bound bound("groupby", arguments, {"attribute", "default", "case_sensitive"}, 1);
  Budget& budget = in.budget();
  const AttributeGetter getter(budget, bound.at(0));
  const Value* otherwise = bound.has(1) ? &bound.at(1) : nullptr;
  std::vector<Value> all = iterate(budget, input);
  const auto key_of = [&](const Value& item) {
    return sort_key(budget, getter.get(budget, item, otherwise), bound.flag(2));
  };
  std::vector<Value> keys;
  for (const Value& item : all) keys.push_back(key_of(item));
  sort_by_keys(budget, keys, all, false);
  std::vector<Value> out;
  for (std::size_t start = 0; start < all.size();) {
    const Value key = key_of(all[start]);
    std::size_t end = start + 1;
    while (end < all.size() && equal(budget, key_of(all[end]), key)) ++end;
    out.push_back(
        group(budget, getter.get(budget, all[start], otherwise),
              {all.begin() + static_cast<std::ptrdiff_t>(start), all.begin() + static_cast<std::ptrdiff_t>(end)}));
    start = end;
  }
  return make_list(budget, std::move(out));
}

Value attr(Interpreter& in, const Value& input, const Arguments& arguments) {
  const Bound bound("attr", arguments, {"name"}, 1);
  return get_own_attribute(in.budget(), input, need_string(bound.at(0), "attr"));
}

constexpr FilterEntry kSequenceFilters[] = {
    {"length", length_filter},
    {"count", length_filter},
    {"default", default_filter},
    {"d", default_filter},
    {"first", first},
    {"last", last},
    {"list", list},
    {"join", join},
    {"reverse", reverse},
    {"sort", sort},
    {"unique", unique},
    {"items", items},
    {"dictsort", dictsort},
    {"batch", batch},
    {"slice", slice},
    {"groupby", groupby},
    {"attr", attr},
};

}  // namespace

FilterFn find_sequence_filter(std::string_view name) { return find_in(kSequenceFilters, name); }

}  // namespace ashlar::tmpl
