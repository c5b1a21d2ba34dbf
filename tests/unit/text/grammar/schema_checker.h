// SPDX-License-Identifier: Apache-2.0
#pragma once
// A second opinion on JSON schemas, written from the specification and not from the grammars: what the goldens use,
// apart from patterns and formats, which jsonschema has checked when the goldens were made.

#include <algorithm>
#include <cmath>
#include <string>

#include "io/json.h"

namespace ashlar::grammar::testing {

class SchemaChecker {
 public:
  explicit SchemaChecker(const Json& root) : root_(root) {}

  bool holds(const Json& schema, const Json& value) {
    if (schema.is_boolean()) return schema.get<bool>();
    return of_type(schema, value) && of_constants(schema, value) && of_parts(schema, value) &&
           in_range(schema, value) && (!value.is_object() || of_members(schema, value)) &&
           (!value.is_array() || of_items(schema, value));
  }
  /// Whether a pattern or format was met, which it does not check.
  bool saw_text_rules() const { return saw_text_rules_; }

 private:
  static bool is(const std::string& type, const Json& value) {
    if (type == "integer") {
      return value.is_number() && value.get<double>() == std::floor(value.get<double>());
    }
    return type == (value.is_number() ? "number" : std::string(value.type_name()));
  }
  static bool of_type(const Json& schema, const Json& value) {
    if (!schema.contains("type")) return true;
    const Json& type = schema["type"];
    if (type.is_string()) return is(type.get<std::string>(), value);
    return std::any_of(type.begin(), type.end(), [&](const Json& one) { return is(one.get<std::string>(), value); });
  }
  static bool same(const Json& a, const Json& b) { return a == b && a.is_boolean() == b.is_boolean(); }
  static bool of_constants(const Json& schema, const Json& value) {
    if (schema.contains("const") && !same(schema["const"], value)) return false;
    if (!schema.contains("enum")) return true;
    return std::any_of(schema["enum"].begin(), schema["enum"].end(), [&](const Json& one) { return same(one, value); });
  }
  bool of_parts(const Json& schema, const Json& value) {
    const auto fits = [&](const Json& part) { return holds(part, value); };
    if (schema.contains("anyOf") && std::none_of(schema["anyOf"].begin(), schema["anyOf"].end(), fits)) return false;
    if (schema.contains("oneOf") && std::count_if(schema["oneOf"].begin(), schema["oneOf"].end(), fits) != 1)
      return false;
    if (schema.contains("allOf") && !std::all_of(schema["allOf"].begin(), schema["allOf"].end(), fits)) return false;
    if (!schema.contains("$ref")) return true;
    return holds(root_.at(Json::json_pointer(schema["$ref"].get<std::string>().substr(1))), value);
  }
  bool in_range(const Json& schema, const Json& value) {
    const auto at_least = [&](const char* key, double n) {
      return !schema.contains(key) || n >= schema[key].get<double>();
    };
    const auto at_most = [&](const char* key, double n) {
      return !schema.contains(key) || n <= schema[key].get<double>();
    };
    if (value.is_number()) {
      const auto n = value.get<double>();
      if (schema.contains("exclusiveMinimum") && n <= schema["exclusiveMinimum"].get<double>()) return false;
      if (schema.contains("exclusiveMaximum") && n >= schema["exclusiveMaximum"].get<double>()) return false;
      return at_least("minimum", n) && at_most("maximum", n);
    }
    if (!value.is_string()) return true;
    saw_text_rules_ = saw_text_rules_ || schema.contains("pattern") || schema.contains("format");
    const auto text = value.get<std::string>();
    const auto n = static_cast<double>(
        std::count_if(text.begin(), text.end(), [](unsigned char c) { return (c & 0xC0) != 0x80; }));
    return at_least("minLength", n) && at_most("maxLength", n);
  }
  bool of_members(const Json& schema, const Json& value) {
    const Json none = Json::object();
    const Json& known = schema.contains("properties") ? schema["properties"] : none;
    if (schema.contains("required")) {
      for (const Json& name : schema["required"]) {
        if (!value.contains(name.get<std::string>())) return false;
      }
    }
    for (const auto& [name, part] : value.items()) {
      const Json* rule = known.contains(name) ? &known[name] : nullptr;
      if (rule == nullptr && schema.contains("additionalProperties")) rule = &schema["additionalProperties"];
      if (rule != nullptr && !holds(*rule, part)) return false;
    }
    return true;
  }
  bool of_items(const Json& schema, const Json& value) {
    const size_t fixed = schema.contains("prefixItems") ? schema["prefixItems"].size() : 0;
    if (schema.contains("minItems") && value.size() < schema["minItems"].get<size_t>()) return false;
    if (schema.contains("maxItems") && value.size() > schema["maxItems"].get<size_t>()) return false;
    for (size_t i = 0; i < value.size(); ++i) {
      if (i < fixed ? !holds(schema["prefixItems"][i], value[i])
                    : schema.contains("items") && !holds(schema["items"], value[i])) {
        return false;
      }
    }
    return true;
  }

  const Json& root_;
  bool saw_text_rules_ = false;
};

}  // namespace ashlar::grammar::testing
