// SPDX-License-Identifier: Apache-2.0
#include "text/template/filters/filters.h"
#include "text/template/run/attribute_getter.h"
#include "text/template/run/tests.h"
#include "text/template/values/text_ops.h"

namespace ashlar::tmpl {
namespace {

/// `arguments` without its first `count` positional ones.
Arguments rest_of(const Arguments& arguments, std::size_t count) {
  Arguments out = arguments;
  out.positional.erase(out.positional.begin(), out.positional.begin() + static_cast<std::ptrdiff_t>(count));
  return out;
}

Value map_attribute(Interpreter& in, const Value& input, const Arguments& arguments) {
  const Bound bound("map", arguments, {"attribute", "default"}, 1);
  const AttributeGetter getter(in.budget(), bound.at(0));
  const Value* otherwise = bound.has(1) ? &bound.at(1) : nullptr;
  std::vector<Value> out;
  for (const Value& item : iterate(in.budget(), input)) {
    in.budget().step();
    out.push_back(getter.get(in.budget(), item, otherwise));
  }
  return make_iterator(in.budget(), std::move(out));
}

Value map(Interpreter& in, const Value& input, const Arguments& arguments) {
  if (!input.truthy()) return make_iterator(in.budget(), {});
  if (arguments.positional.empty() && arguments.find("attribute") != nullptr)
    return map_attribute(in, input, arguments);
  if (arguments.positional.empty()) fail("map requires the name of a filter or an attribute");
  const std::string& name = need_string(arguments.positional[0], "map");
  const FilterFn filter = find_filter(name);
  if (filter == nullptr) fail("no filter named '" + name + "'");
  const Arguments rest = rest_of(arguments, 1);
  std::vector<Value> out;
  for (const Value& item : iterate(in.budget(), input)) {
    in.budget().step();
    out.push_back(filter(in, item, rest));
  }
  return make_iterator(in.budget(), std::move(out));
}

/// The items for which the test named by the arguments gives `wanted`. With `attribute` the first argument names what
/// of each item is tested.
Value choose(Interpreter& in, const Value& input, const Arguments& arguments, bool attribute, bool wanted) {
  if (!input.truthy()) return make_iterator(in.budget(), {});
  const std::size_t offset = attribute ? 1 : 0;
  if (arguments.positional.size() < offset) fail("missing parameter for attribute name");
  const AttributeGetter getter(in.budget(), attribute ? arguments.positional[0] : Value());
  TestFn test = nullptr;
  Arguments rest;
  if (arguments.positional.size() > offset) {
    const std::string& name = need_string(arguments.positional[offset], "select");
    test = find_test(name);
    if (test == nullptr) fail("no test named '" + name + "'");
    rest = rest_of(arguments, offset + 1);
  }
  std::vector<Value> out;
  for (const Value& item : iterate(in.budget(), input)) {
    in.budget().step();
    const Value tested = getter.get(in.budget(), item);
    if ((test != nullptr ? test(in, tested, rest) : tested.truthy()) == wanted) out.push_back(item);
  }
  return make_iterator(in.budget(), std::move(out));
}

Value select(Interpreter& in, const Value& v, const Arguments& a) { return choose(in, v, a, false, true); }
Value reject(Interpreter& in, const Value& v, const Arguments& a) { return choose(in, v, a, false, false); }
Value selectattr(Interpreter& in, const Value& v, const Arguments& a) { return choose(in, v, a, true, true); }
Value rejectattr(Interpreter& in, const Value& v, const Arguments& a) { return choose(in, v, a, true, false); }

constexpr FilterEntry kSelectionFilters[] = {
    {"map", map}, {"select", select}, {"reject", reject}, {"selectattr", selectattr}, {"rejectattr", rejectattr}};

}  // namespace

FilterFn find_selection_filter(std::string_view name) { return find_in(kSelectionFilters, name); }

}  // namespace ashlar::tmpl
