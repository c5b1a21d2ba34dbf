// SPDX-License-Identifier: Apache-2.0
#include "text/template/filters/filters.h"

namespace ashlar::tmpl {

FilterFn find_filter(std::string_view name) {
  for (FilterFn (*table)(std::string_view) :
       {find_text_filter, find_layout_filter, find_number_filter, find_sequence_filter, find_selection_filter})
    if (const FilterFn filter = table(name)) return filter;
  return nullptr;
}

}  // namespace ashlar::tmpl
