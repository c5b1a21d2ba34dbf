// SPDX-License-Identifier: Apache-2.0
#include "text/template/run/attribute_getter.h"

#include "text/template/run/access.h"
#include "text/template/values/text_ops.h"
#include "text/template/values/utf8.h"

namespace ashlar::tmpl {

AttributeGetter::AttributeGetter(Budget& budget, const Value& attribute) {
  if (attribute.is_none()) return;
  if (!attribute.is(Kind::kString)) {
    parts_.push_back(attribute);
    return;
  }
  for (const std::string_view part : split_at(attribute.as_string(), ".", -1)) {
    const bool number =
        !part.empty() && part.size() < 18 && part.find_first_not_of("0123456789") == std::string_view::npos;
    parts_.push_back(number ? Value(static_cast<std::int64_t>(std::stoll(std::string(part))))
                            : make_part(budget, attribute.as_text(), part));
  }
}

Value AttributeGetter::get(Budget& budget, const Value& item, const Value* otherwise) const {
  Value out = item;
  for (const Value& part : parts_) {
    out = get_item(budget, out, part);
    if (out.is_undefined() && otherwise != nullptr && !otherwise->is_none()) out = *otherwise;
  }
  return out;
}

Value sort_key(Budget& budget, const Value& value, bool case_sensitive) {
  if (case_sensitive || !value.is(Kind::kString)) return value;
  charge_case_mapping(budget, value.as_string());
  return make_string(budget, to_lower(value.as_string()), value.as_text().origins.greatest());
}

}  // namespace ashlar::tmpl
