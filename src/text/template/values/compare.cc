// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <numeric>

#include "text/template/values/dict.h"
#include "text/template/values/operators.h"
#include "text/template/values/search.h"

namespace ashlar::tmpl {
namespace {

/// Exact for every pair: the x87 long double holds any int64 and any double.
long double exact(const Value& number) {
  return number.is(Kind::kFloat) ? static_cast<long double>(number.as_float())
                                 : static_cast<long double>(number.as_int());
}

bool equal_items(Budget& budget, const std::vector<Value>& a, const std::vector<Value>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!equal(budget, a[i], b[i])) return false;
  return true;
}

bool equal_dicts(Budget& budget, const Dict& a, const Dict& b) {
  if (a.entries.size() != b.entries.size()) return false;
  for (const auto& [key, value] : a.entries) {
    const Value* other = b.find(budget, key);
    if (other == nullptr || !equal(budget, value, *other)) return false;
  }
  return true;
}

[[noreturn]] void fail_order(CompareOp op, const Value& a, const Value& b) {
  if (a.is_undefined()) fail_undefined(a);
  if (b.is_undefined()) fail_undefined(b);
  static constexpr const char* kSigns[] = {"==", "!=", "<", "<=", ">", ">="};
  fail(std::string("'") + kSigns[static_cast<int>(op)] + "' not supported between instances of '" + a.type_name() +
       "' and '" + b.type_name() + "'");
}

template <class T>
bool apply_order(CompareOp op, const T& a, const T& b) {
  switch (op) {
    case CompareOp::kLt:
      return a < b;
    case CompareOp::kLe:
      return a <= b;
    case CompareOp::kGt:
      return a > b;
    default:
      return a >= b;
  }
}

bool order(Budget& budget, CompareOp op, const Value& a, const Value& b) {
  budget.step();
  if (a.is_number() && b.is_number()) return apply_order(op, exact(a), exact(b));
  if (a.is(Kind::kString) && b.is(Kind::kString)) {  // UTF-8 sorts as its code points do
    budget.work(std::min(a.as_string().size(), b.as_string().size()));
    return apply_order(op, a.as_string(), b.as_string());
  }
  if (a.kind() == b.kind() && (a.is(Kind::kList) || a.is(Kind::kTuple))) {
    const auto& left = a.as_items();
    const auto& right = b.as_items();
    for (std::size_t i = 0; i < std::min(left.size(), right.size()); ++i)
      if (!equal(budget, left[i], right[i])) return order(budget, op, left[i], right[i]);
    return apply_order(op, left.size(), right.size());
  }
  fail_order(op, a, b);
}

}  // namespace

bool equal(Budget& budget, const Value& a, const Value& b) {
  budget.step();
  if (a.is_number() && b.is_number()) return exact(a) == exact(b);
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return true;
    case Kind::kString:
      if (a.as_string().size() != b.as_string().size()) return false;
      budget.work(a.as_string().size());
      return a.as_string() == b.as_string();
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kView:
      return a.same_as(b) || equal_items(budget, a.as_items(), b.as_items());
    case Kind::kDict:
      return a.same_as(b) || equal_dicts(budget, a.as_dict(), b.as_dict());
    case Kind::kRange: {
      const Range& x = a.as_range();
      const Range& y = b.as_range();
      const std::int64_t size = x.size();
      return size == y.size() && (size == 0 || (x.start == y.start && (size == 1 || x.step == y.step)));
    }
    default:
      return a.same_as(b);
  }
}

bool less(Budget& budget, const Value& a, const Value& b) { return order(budget, CompareOp::kLt, a, b); }

bool compare(Budget& budget, CompareOp op, const Value& a, const Value& b) {
  switch (op) {
    case CompareOp::kEq:
      return equal(budget, a, b);
    case CompareOp::kNe:
      return !equal(budget, a, b);
    case CompareOp::kIn:
      return contains(budget, b, a);
    case CompareOp::kNotIn:
      return !contains(budget, b, a);
    default:
      return order(budget, op, a, b);
  }
}

bool contains(Budget& budget, const Value& container, const Value& item) {
  switch (container.kind()) {
    case Kind::kString:
      if (!item.is(Kind::kString)) fail("'in <string>' requires string as left operand, not " + item.type_name());
      budget.work(container.as_string().size() + item.as_string().size());
      return find_bytes(container.as_string(), item.as_string()) != std::string_view::npos;
    case Kind::kDict:
      return container.as_dict().find(budget, item) != nullptr;
    case Kind::kView:
      if (std::string_view(container.as_sequence().view) == "dict_keys" &&
          (item.is(Kind::kList) || item.is(Kind::kDict)))
        fail("unhashable type: '" + item.type_name() + "'");
      [[fallthrough]];
    case Kind::kList:
    case Kind::kTuple:
      return std::any_of(container.as_items().begin(), container.as_items().end(),
                         [&](const Value& each) { return equal(budget, each, item); });
    case Kind::kIterator: {
      Iterator& iterator = container.as_iterator();
      while (iterator.next < iterator.items.size())
        if (equal(budget, iterator.items[iterator.next++], item)) return true;
      return false;
    }
    case Kind::kRange: {
      for (const Value& each : iterate(budget, container))
        if (equal(budget, each, item)) return true;
      return false;
    }
    case Kind::kUndefined:
      return false;
    default:
      fail("argument of type '" + container.type_name() + "' is not iterable");
  }
}

void sort_by_keys(Budget& budget, const std::vector<Value>& keys, std::vector<Value>& items, bool reverse) {
  std::vector<std::size_t> order(items.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return reverse ? less(budget, keys[b], keys[a]) : less(budget, keys[a], keys[b]);
  });
  std::vector<Value> sorted;
  sorted.reserve(items.size());
  for (const std::size_t index : order) sorted.push_back(items[index]);
  items = std::move(sorted);
}

}  // namespace ashlar::tmpl
