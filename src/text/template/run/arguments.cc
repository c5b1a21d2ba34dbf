// SPDX-License-Identifier: Apache-2.0
#include "text/template/run/arguments.h"

#include <algorithm>

namespace ashlar::tmpl {

Bound::Bound(std::string_view function, const Arguments& arguments, std::initializer_list<std::string_view> names,
             std::size_t required)
    : function_(function), names_(names.begin(), names.end()), slots_(names.size(), nullptr) {
  if (arguments.positional.size() > names.size())
    fail(function_ + "() takes at most " + std::to_string(names.size()) + " arguments, got " +
         std::to_string(arguments.positional.size()));
  for (std::size_t i = 0; i < arguments.positional.size(); ++i) slots_[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    const auto it = std::find(names_.begin(), names_.end(), name);
    if (it == names_.end()) fail(function_ + "() got an unexpected keyword argument '" + name + "'");
    const Value*& slot = slots_[static_cast<std::size_t>(it - names_.begin())];
    if (slot != nullptr) fail(function_ + "() got multiple values for argument '" + name + "'");
    slot = &value;
  }
  for (std::size_t i = 0; i < required; ++i)
    if (slots_[i] == nullptr) fail(function_ + "() is missing the argument '" + names_[i] + "'");
}

std::int64_t Bound::integer(std::size_t index, std::int64_t otherwise) const {
  if (!has(index)) return otherwise;
  const Value& value = at(index);
  if (value.is_undefined()) fail_undefined(value);
  if (!value.is_integral())
    fail(function_ + "(): argument '" + names_[index] + "' must be an integer, got " + value.type_name());
  return value.as_int();
}

const std::string& Bound::string(std::size_t index, const std::string& otherwise) const {
  return has(index) ? text(index).bytes : otherwise;
}

const Text& Bound::text(std::size_t index) const {
  const Value& value = at(index);
  if (value.is_undefined()) fail_undefined(value);
  if (!value.is(Kind::kString))
    fail(function_ + "(): argument '" + names_[index] + "' must be a string, got " + value.type_name());
  return value.as_text();
}

}  // namespace ashlar::tmpl
