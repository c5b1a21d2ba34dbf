#pragma once
// Values to text: str(), repr() and json.dumps() of Python.

#include <string>
#include <string_view>

#include "text/template/value.h"

namespace ashlar::tmpl {

/// str(value); the empty string for undefined.
std::string to_str(Budget& budget, const Value& value);
std::string to_repr(Budget& budget, const Value& value);
/// Appends repr(value). `depth` counts nesting, for the namespaces that may contain themselves.
void append_repr(Budget& budget, std::string& out, const Value& value, int depth);
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
};

/// json.dumps(value). Fails on what JSON has no form for.
std::string to_json(Budget& budget, const Value& value, const JsonStyle& style);

}  // namespace ashlar::tmpl
