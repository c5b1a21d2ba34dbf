// SPDX-License-Identifier: Apache-2.0
#pragma once
// Values to text: str(), repr() and json.dumps() of Python.

#include <algorithm>
#include <string>
#include <string_view>

#include "text/template/values/value.h"

namespace ashlar::tmpl {

/// Text made of a value with many parts: all of it counts as the greatest origin among them.
struct FlatText {
  std::string bytes;
  Origin origin = Origin::kTemplate;
  void include(const Origins& part) { origin = std::max(origin, part.greatest()); }
};

/// str(value); the empty string for undefined. A string is itself.
Value to_str(Budget& budget, const Value& value);
/// The text of an object that clients send as text (Dict::json_text), else the value itself.
Value text_of(Budget& budget, const Value& value);
FlatText to_repr(Budget& budget, const Value& value);
/// Appends repr(value). `depth` counts nesting, for the namespaces that may contain themselves.
void append_repr(Budget& budget, FlatText& out, const Value& value, int depth);
/// repr() of a string.
std::string quote(std::string_view text);
/// repr(float): the shortest digits that read back the same.
std::string float_repr(double value);

struct JsonStyle {
  bool ascii = false;
  bool sort_keys = false;
  bool pretty = false;  ///< newlines and `indent` before each level
  std::string indent;
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  Origin origin = Origin::kTemplate;  ///< the greatest of these texts
};

/// json.dumps(value). Fails on what JSON has no form for.
FlatText to_json(Budget& budget, const Value& value, const JsonStyle& style);

}  // namespace ashlar::tmpl
