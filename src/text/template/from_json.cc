#include "text/template/from_json.h"

#include <limits>

#include "io/json.h"
#include "text/template/dict.h"

namespace ashlar::tmpl {
namespace {

Value convert(Budget& budget, const nlohmann::ordered_json& json, int depth) {
  using Type = nlohmann::ordered_json::value_t;
  checked_depth(depth);
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
      return make_string(budget, json.get_ref<const std::string&>());
    case Type::array: {
      std::vector<Value> items;
      items.reserve(json.size());
      for (const auto& item : json) items.push_back(convert(budget, item, depth + 1));
      return make_list(budget, std::move(items));
    }
    case Type::object: {
      Dict dict;
      for (const auto& [key, item] : json.items())
        dict.set(budget, make_string(budget, key), convert(budget, item, depth + 1));
      return make_dict(std::move(dict));
    }
    default:
      fail("the variables hold a value that JSON text cannot");
  }
}

}  // namespace

Value from_json(Budget& budget, const nlohmann::ordered_json& json) { return convert(budget, json, 0); }

std::unordered_map<std::string, Value> variables_from_json(Budget& budget, const nlohmann::ordered_json& json) {
  std::unordered_map<std::string, Value> out;
  if (json.is_null()) return out;
  if (!json.is_object()) fail(std::string("the variables must be an object, got ") + json.type_name());
  for (const auto& [name, value] : json.items()) out[name] = convert(budget, value, 1);
  return out;
}

}  // namespace ashlar::tmpl
