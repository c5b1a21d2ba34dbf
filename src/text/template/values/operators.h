// SPDX-License-Identifier: Apache-2.0
#pragma once
// Python's operators on values. Failures carry Python's wording where a template author would look it up.

#include "text/template/parse/ast.h"
#include "text/template/values/value.h"

namespace ashlar::tmpl {

bool equal(Budget& budget, const Value& a, const Value& b);
/// a < b; fails when Python cannot order the two.
bool less(Budget& budget, const Value& a, const Value& b);
bool compare(Budget& budget, CompareOp op, const Value& a, const Value& b);
/// item in container.
bool contains(Budget& budget, const Value& container, const Value& item);

Value arithmetic(Budget& budget, BinaryOp op, const Value& a, const Value& b);
Value negate(const Value& value);
Value plus(const Value& value);

/// Stable sort by less() on keys; keys and items run in parallel. `reverse` keeps equal items in order, as Python does.
void sort_by_keys(Budget& budget, const std::vector<Value>& keys, std::vector<Value>& items, bool reverse);

}  // namespace ashlar::tmpl
