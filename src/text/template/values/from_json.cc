// SPDX-License-Identifier: Apache-2.0
#include "text/template/values/from_json.h"

#include <limits>

#include "io/json.h"
#include "text/template/values/dict.h"

namespace ashlar::tmpl {
namespace {

class Converter {
 public:
  Converter(Budget& budget, const Variable& variable) : budget_(budget), variable_(variable) {}

  Value convert(const Json& json, Origin origin, int depth) {
    using Type = Json::value_t;
    checked_depth(depth);
    if (!variable_.parts.empty())
      if (const auto part = variable_.parts.find(&json); part != variable_.parts.end()) origin = part->second;
    switch (json.type()) {
      case Type::null:
        return Value();
      case Type::boolean:
        return Value(json.get<bool>());
      case Type::number_integer:
        return Value(json.get<std::int64_t>());
      case Type::number_unsigned: {
        const auto value = json.get<std::uint64_t>();
        // As the parser reads larger ones: nearly the same number is better than no chat with the tool that states it.
        if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
          return Value(static_cast<double>(value));
        return Value(static_cast<std::int64_t>(value));
      }
      case Type::number_float:
        return Value(json.get<double>());
      case Type::string:
        return make_string(budget_, json.get_ref<const std::string&>(), origin);
      case Type::array: {
        std::vector<Value> items;
        items.reserve(json.size());
        for (const auto& item : json) items.push_back(convert(item, origin, depth + 1));
        return make_list(budget_, std::move(items));
      }
      case Type::object: {
        Dict dict;
        dict.json_text = variable_.json_texts.contains(&json);
        for (const auto& [key, item] : json.items())
          dict.set(budget_, make_string(budget_, key, origin), convert(item, origin, depth + 1));
        return make_dict(std::move(dict));
      }
      default:
        fail("the variables hold a value that JSON text cannot");
    }
  }

 private:
  Budget& budget_;
  const Variable& variable_;
};

}  // namespace

Value from_json(Budget& budget, const Variable& variable) {
  return Converter(budget, variable).convert(*variable.value, variable.origin, 1);
}

}  // namespace ashlar::tmpl
