// SPDX-License-Identifier: Apache-2.0
#include "text/template/values/dict.h"

#include <algorithm>

#include "text/template/values/operators.h"

namespace ashlar::tmpl {
namespace {

void check_hashable(Budget& budget, const Value& key) {
  budget.step();
  switch (key.kind()) {
    case Kind::kList:
    case Kind::kDict:
    case Kind::kView:
      fail("unhashable type: '" + key.type_name() + "'");
    case Kind::kTuple:
      for (const Value& item : key.as_items()) check_hashable(budget, item);
      break;
    default:
      break;
  }
}

}  // namespace

const Value* Dict::find(std::string_view key) const {
  const auto it = strings_.find(key);
  return it == strings_.end() ? nullptr : &entries[it->second].second;
}

std::size_t Dict::position(Budget& budget, const Value& key) const {
  if (key.is(Kind::kString)) {
    const auto it = strings_.find(key.as_string());
    return it == strings_.end() ? entries.size() : it->second;
  }
  check_hashable(budget, key);
  for (const std::size_t index : others_)
    if (equal(budget, entries[index].first, key)) return index;
  return entries.size();
}

const Value* Dict::find(Budget& budget, const Value& key) const {
  const std::size_t index = position(budget, key);
  return index == entries.size() ? nullptr : &entries[index].second;
}

void Dict::set(Budget& budget, const Value& key, Value value) {
  depth = std::max(depth, checked_depth(1 + std::max(key.depth(), value.depth())));
  const std::size_t index = position(budget, key);
  if (index < entries.size()) {
    entries[index].second = std::move(value);
    return;
  }
  budget.work(4 * sizeof(Value));
  if (key.is(Kind::kString)) {
    budget.work(key.as_string().size());
    entries.emplace_back(key, std::move(value));
    strings_.emplace(entries.back().first.as_string(), index);
  } else {
    entries.emplace_back(key, std::move(value));
    others_.push_back(index);
  }
}

Value make_dict(Dict dict) { return Value(std::shared_ptr<const Dict>(std::make_shared<Dict>(std::move(dict)))); }

}  // namespace ashlar::tmpl
