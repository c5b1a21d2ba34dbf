// SPDX-License-Identifier: Apache-2.0
#pragma once
// Arguments of a call, and their match against a Python signature.

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/template/values/value.h"

namespace ashlar::tmpl {

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
  Origin names = Origin::kTemplate;  ///< the greatest of those names that a ** brought

  /// The keyword argument `name`, or null.
  const Value* find(std::string_view name) const {
    for (const auto& [key, value] : named)
      if (key == name) return &value;
    return nullptr;
  }
};

/// The arguments of one call in the order of the signature `names`; the first `required` must be given.
/// Fails on missing, surplus, unknown and double ones.
class Bound {
 public:
  Bound(std::string_view function, const Arguments& arguments, std::initializer_list<std::string_view> names,
        std::size_t required = 0);

  bool has(std::size_t index) const { return slots_[index] != nullptr; }
  /// Given, and not None.
  bool given(std::size_t index) const { return has(index) && !slots_[index]->is_none(); }
  const Value& at(std::size_t index) const { return *slots_[index]; }

  /// Typed reads, with a default for what was not given. Fail on another type.
  std::int64_t integer(std::size_t index, std::int64_t otherwise) const;
  const std::string& string(std::size_t index, const std::string& otherwise) const;
  /// A string that is given.
  const Text& text(std::size_t index) const;
  bool flag(std::size_t index, bool otherwise = false) const { return has(index) ? at(index).truthy() : otherwise; }

 private:
  std::string function_;
  std::vector<std::string> names_;
  std::vector<const Value*> slots_;
};

}  // namespace ashlar::tmpl
