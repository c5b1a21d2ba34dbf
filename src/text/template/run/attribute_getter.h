// SPDX-License-Identifier: Apache-2.0
#pragma once
// The `attribute` argument of map, sort, sum and others: a dotted path of items.

#include <string>
#include <string_view>
#include <vector>

#include "text/template/run/interpreter.h"

namespace ashlar::tmpl {

class AttributeGetter {
 public:
  /// `attribute` is a string, an integer or None, which gives the item itself.
  AttributeGetter(Budget& budget, const Value& attribute);

  /// The value at the path; `otherwise` (may be null or None) stands in for undefined on the way.
  Value get(Budget& budget, const Value& item, const Value* otherwise = nullptr) const;

 private:
  std::vector<Value> parts_;
};

/// Strings in lower case unless `case_sensitive`, other values as they are: what filters sort and compare by.
Value sort_key(Budget& budget, const Value& value, bool case_sensitive);

}  // namespace ashlar::tmpl
