// SPDX-License-Identifier: Apache-2.0
#pragma once
// Jinja's built-in filters that work on data. One table a file: text, sequences, selection, numbers.

#include <string_view>

#include "text/template/parse/ast.h"
#include "text/template/run/arguments.h"

namespace ashlar::tmpl {

struct FilterEntry {
  std::string_view name;
  FilterFn function;
};

/// A filter by name, or null.
FilterFn find_filter(std::string_view name);

FilterFn find_text_filter(std::string_view name);
FilterFn find_layout_filter(std::string_view name);
FilterFn find_number_filter(std::string_view name);
FilterFn find_sequence_filter(std::string_view name);
FilterFn find_selection_filter(std::string_view name);

template <std::size_t N>
FilterFn find_in(const FilterEntry (&table)[N], std::string_view name) {
  for (const FilterEntry& entry : table)
    if (entry.name == name) return entry.function;
  return nullptr;
}

}  // namespace ashlar::tmpl
