// SPDX-License-Identifier: Apache-2.0
#include "text/template/run/access.h"
#include "text/template/values/dict.h"
#include "text/template/values/operators.h"

namespace ashlar::tmpl {
namespace {

Value dict_keys(Budget& budget, const Value& self, const Arguments& arguments) {
  const Bound bound("keys", arguments, {});
  return make_view(budget, iterate(budget, self), "dict_keys");
}

Value dict_values(Budget& budget, const Value& self, const Arguments& arguments) {
  const Bound bound("values", arguments, {});
  std::vector<Value> values;
  for (const auto& [key, value] : self.as_dict().entries) values.push_back(value);
  return make_view(budget, std::move(values), "dict_values");
}

Value dict_items(Budget& budget, const Value& self, const Arguments& arguments) {
  const Bound bound("items", arguments, {});
  std::vector<Value> items;
  budget.step(self.as_dict().entries.size());
  for (const auto& [key, value] : self.as_dict().entries) items.push_back(make_tuple(budget, {key, value}));
  return make_view(budget, std::move(items), "dict_items");
}

Value dict_get(Budget& budget, const Value& self, const Arguments& arguments) {
  const Bound bound("get", arguments, {"key", "default"}, 1);
  const Value* found = self.as_dict().find(budget, bound.at(0));
  return found != nullptr ? *found : bound.has(1) ? bound.at(1) : Value();
}

Value copy(Budget&, const Value& self, const Arguments& arguments) {
  const Bound bound("copy", arguments, {});
  return self;  // nothing can change it
}

Value list_index(Budget& budget, const Value& self, const Arguments& arguments) {
  const Bound bound("index", arguments, {"value"}, 1);
  std::int64_t index = 0;
  for (const Value& item : self.as_items()) {
    if (equal(budget, item, bound.at(0))) return Value(index);
    ++index;
  }
  fail("the value is not in the " + self.type_name());
}

Value list_count(Budget& budget, const Value& self, const Arguments& arguments) {
  const Bound bound("count", arguments, {"value"}, 1);
  std::int64_t count = 0;
  for (const Value& item : self.as_items()) count += equal(budget, item, bound.at(0)) ? 1 : 0;
  return Value(count);
}

constexpr MethodEntry kDictMethods[] = {
    {"items", dict_items}, {"keys", dict_keys}, {"values", dict_values}, {"get", dict_get},       {"copy", copy},
    {"clear", nullptr},    {"pop", nullptr},    {"popitem", nullptr},    {"setdefault", nullptr}, {"update", nullptr},
};

constexpr MethodEntry kListMethods[] = {
    {"index", list_index}, {"count", list_count}, {"copy", copy},       {"append", nullptr},
    {"clear", nullptr},    {"pop", nullptr},      {"reverse", nullptr}, {"insert", nullptr},
    {"sort", nullptr},     {"extend", nullptr},   {"remove", nullptr},
};

constexpr MethodEntry kTupleMethods[] = {{"index", list_index}, {"count", list_count}};

template <std::size_t N>
const MethodEntry* find_in(const MethodEntry (&table)[N], std::string_view name) {
  for (const MethodEntry& method : table)
    if (method.name == name) return &method;
  return nullptr;
}

}  // namespace

const MethodEntry* find_method(Kind kind, std::string_view name) {
  switch (kind) {
    case Kind::kString:
      return find_string_method(name);
    case Kind::kDict:
      return find_in(kDictMethods, name);
    case Kind::kList:
      return find_in(kListMethods, name);
    case Kind::kTuple:
      return find_in(kTupleMethods, name);
    default:
      return nullptr;
  }
}

}  // namespace ashlar::tmpl
