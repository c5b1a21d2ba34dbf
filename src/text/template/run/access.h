// SPDX-License-Identifier: Apache-2.0
#pragma once
// Attribute and item access, as Jinja's sandbox resolves them. There is no reflection in it: what a template can
// reach is exactly what is listed in methods.cc and in the objects' own attribute().

#include "text/template/run/arguments.h"
#include "text/template/values/value.h"

namespace ashlar::tmpl {

/// object.name: methods and attributes first, then items; undefined when there is neither.
Value get_attribute(Budget& budget, const Value& object, std::string_view name);
/// Methods and attributes only, as the filter attr.
Value get_own_attribute(Budget& budget, const Value& object, std::string_view name);
/// object[key]: items first, then, for a string key, attributes.
Value get_item(Budget& budget, const Value& object, const Value& key);
/// object[start:stop:step]; None stands for an absent bound.
Value get_slice(Budget& budget, const Value& object, const Value& start, const Value& stop, const Value& step);

using MethodFn = Value (*)(Budget&, const Value& self, const Arguments&);
struct MethodEntry {
  std::string_view name;
  MethodFn function;  ///< null: the method would change its object, which the sandbox refuses
};

/// The method `name` of values of this kind, or null.
const MethodEntry* find_method(Kind kind, std::string_view name);
const MethodEntry* find_string_method(std::string_view name);

}  // namespace ashlar::tmpl
