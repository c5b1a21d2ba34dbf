// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/schema/schema_merge.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"

namespace ashlar::grammar {
namespace {

Json both(const Json& a, const Json& b);

// What the schema itself says about properties that it does not list.
Json of_others(const Json& schema) { return schema.value("additionalProperties", Json(true)); }

// Properties that one of the two lists are subject to what the other says about those it does not list.
Json merge_properties(const Json& a, const Json& b, const std::string& pointer) {
  Json result = Json::object();
  const Json none = Json::object();
  const Json& left = a.contains("properties") ? a["properties"] : none;
  const Json& right = b.contains("properties") ? b["properties"] : none;
  const auto add = [&](const std::string& name, const Json& schema, const Json& other) {
    const Json others = of_others(other);
    if (others == Json(true)) {
      result[name] = schema;
    } else if (other.contains("patternProperties")) {
      schema_error(pointer,
                   "\"patternProperties\" next to additionalProperties does not go with another schema's "
                   "properties that hold at once");
    } else if (others != Json(false)) {
      result[name] = both(schema, others);
    }
  };
  for (const auto& [name, schema] : left.items()) {
    if (right.contains(name)) {
      result[name] = both(schema, right[name]);
    } else {
      add(name, schema, b);
    }
  }
  for (const auto& [name, schema] : right.items()) {
    if (!left.contains(name)) add(name, schema, a);
  }
  return result;
}

Json merge_types(const Json& a, const Json& b) {
  Json result = Json::array();
  const auto has = [](const Json& list, const Json& name) {
    return std::find(list.begin(), list.end(), name) != list.end();
  };
  const Json left = type_list(a);
  const Json right = type_list(b);
  for (const Json& name : left) {
    if (has(right, name) || (name == "integer" && has(right, "number"))) result.push_back(name);
  }
  for (const Json& name : right) {
    if (name == "integer" && has(left, "number") && !has(left, "integer")) result.push_back(name);
  }
  return result;
}

Json merge_lists(const Json& a, const Json& b, bool of_both) {
  Json result = Json::array();
  const auto has = [](const Json& list, const Json& item) {
    return std::any_of(list.begin(), list.end(), [&item](const Json& other) { return equal(item, other); });
  };
  for (const Json& item : a) {
    if (!of_both || has(b, item)) result.push_back(item);
  }
  if (!of_both) {
    for (const Json& item : b) {
      if (!has(a, item)) result.push_back(item);
    }
  }
  return result;
}

// One keyword that both schemas have, with different values.
Json merge_keyword(const std::string& key, const Json& a, const Json& b, const std::string& pointer) {
  const auto any_of = [&key](std::initializer_list<const char*> keys) {
    return std::any_of(keys.begin(), keys.end(), [&key](const char* other) { return key == other; });
  };
  if (a == b) return a;
  if (key == "type") return merge_types(a, b);
  if (key == "required" && a.is_array() && b.is_array()) return merge_lists(a, b, false);
  if (key == "enum" && a.is_array() && b.is_array()) return merge_lists(a, b, true);
  if (any_of({"minimum", "minLength", "minItems", "exclusiveMinimum", "minProperties"}) && a.is_number() &&
      b.is_number()) {
    return a.get<double>() > b.get<double>() ? a : b;
  }
  if (any_of({"maximum", "maxLength", "maxItems", "exclusiveMaximum", "maxProperties"}) && a.is_number() &&
      b.is_number()) {
    return a.get<double>() < b.get<double>() ? a : b;
  }
  if (key == "items" && !a.is_array() && !b.is_array()) return both(a, b);
  if (key == "propertyNames") return both(a, b);
  if (key == "uniqueItems" && a.is_boolean() && b.is_boolean()) return true;
  if (key[0] == kInternal) return merge_lists(a, b, false);
  if (any_of({"additionalProperties", "unevaluatedProperties"})) {
    if (a.is_boolean()) return a.get<bool>() ? b : a;
    if (b.is_boolean()) return b.get<bool>() ? a : b;
  }
  if (key == "nullable") return false;
  schema_error(pointer, "two different \"" + key + "\" hold at once, which is not supported");
}

// What a list holds place by place, and after these places. Before draft 2020, a list under `items` meant what is
// prefixItems now, and additionalItems what is items.
struct Places {
  std::vector<Json> prefix;
  std::optional<Json> rest;
  Json at(size_t i) const { return i < prefix.size() ? prefix[i] : rest.value_or(Json(true)); }
};

bool has_places(const Json& schema) {
  return schema.contains("prefixItems") || (schema.contains("items") && schema["items"].is_array());
}

Places places_of(const Json& schema, const std::string& pointer) {
  const bool old = schema.contains("items") && schema["items"].is_array();
  const char* prefix_key = old ? "items" : "prefixItems";
  const char* rest_key = old ? "additionalItems" : "items";
  Places places;
  if (schema.contains(prefix_key)) {
    const Json& prefix = schema[prefix_key];
    if (!prefix.is_array()) schema_error(pointer_to(pointer, prefix_key), "expected a list of schemas");
    places.prefix.assign(prefix.begin(), prefix.end());
  }
  if (schema.contains(rest_key)) places.rest = schema[rest_key];
  return places;
}

// What one schema says after its places holds at the other's.
void merge_places(const Json& a, const Json& b, const std::string& pointer, Json& result) {
  const Places left = places_of(a, pointer);
  const Places right = places_of(b, pointer);
  for (const char* key : {"prefixItems", "items", "additionalItems"}) result.erase(key);
  Json prefix = Json::array();
  for (size_t i = 0; i < std::max(left.prefix.size(), right.prefix.size()); ++i) {
    prefix.push_back(both(left.at(i), right.at(i)));
  }
  result["prefixItems"] = std::move(prefix);
  if (left.rest || right.rest) result["items"] = both(left.rest.value_or(true), right.rest.value_or(true));
}

// minContains and maxContains belong to the `contains` next to them; without a number it is at least one.
void merge_contains(const Json& a, const Json& b, Json& result) {
  for (const char* key : {"minContains", "maxContains"}) {
    std::optional<Json> found;
    for (const Json* side : {&a, &b}) {
      if (!side->contains("contains")) continue;
      const bool least = key[1] == 'i';
      const Json value = side->value(key, least ? Json(1) : Json());
      if (value.is_null()) continue;
      if (!found || (least ? value > *found : value < *found)) found = value;
    }
    result.erase(key);
    if (found && (a.contains(key) || b.contains(key))) result[key] = *found;
  }
}

// Where a second pattern or multiple goes.
const char* list_of(const std::string& key) {
  return key == "pattern" ? kPatterns : key == "multipleOf" ? kMultiples : nullptr;
}

void append(Json& schema, const char* key, const Json& value) {
  if (!schema.contains(key)) schema[key] = Json::array();
  schema[key].push_back(value);
}

Json merge_name_patterns(const Json& a, const Json& b, const std::string& pointer) {
  if (!a.is_object() || !b.is_object()) schema_error(pointer, "expected an object under \"patternProperties\"");
  Json result = a;
  for (const auto& [pattern, schema] : b.items()) {
    result[pattern] = result.contains(pattern) ? both(result[pattern], schema) : schema;
  }
  return result;
}

// What a schema says about properties that it does not list holds for those of the other's patterns too, which the
// union of both lists of patterns cannot say.
void check_name_patterns(const Json& a, const Json& b, const std::string& pointer) {
  if (!a.contains("patternProperties") || of_others(b) == Json(true)) return;
  for (const auto& [pattern, schema] : a["patternProperties"].items()) {
    if (b.contains("patternProperties") && b["patternProperties"].contains(pattern)) continue;
    schema_error(pointer,
                 "\"patternProperties\" does not go with another schema's \"additionalProperties\" that holds at once; "
                 "expected both to list the pattern " +
                     for_message(pattern));
  }
}

// Whether an alternative may say something about a property by name: keywords that cannot are listed.
bool may_list_properties(const Json& schema) {
  if (!schema.is_object()) return false;
  for (const auto& [key, value] : schema.items()) {
    const bool cannot = key == "type" || key == "required" || key == "minProperties" || key == "maxProperties" ||
                        key == "const" || key == "enum" || key == "propertyNames" || is_annotation(key);
    if (!cannot) return true;
  }
  return false;
}

// Constants that the rest of their schema rules out, or a property that must and cannot be there: nothing satisfies it.
bool contradicts_itself(const Json& schema) {
  if (schema.contains("const")) {
    const Json& value = schema["const"];
    const auto is_value = [&](const Json& other) { return equal(value, other); };
    const Json& excluded = excluded_values(schema);
    if (std::any_of(excluded.begin(), excluded.end(), is_value) || !has_type_of(value, schema)) return true;
    if (schema.contains("enum") && schema["enum"].is_array() &&
        std::none_of(schema["enum"].begin(), schema["enum"].end(), is_value)) {
      return true;
    }
  }
  if (schema.contains("enum") && schema["enum"].is_array() &&
      std::none_of(schema["enum"].begin(), schema["enum"].end(),
                   [&](const Json& value) { return has_type_of(value, schema); })) {
    return true;
  }
  if (schema.contains("type") && schema["type"].is_array() && schema["type"].empty()) return true;
  // What an object needs says nothing about other values, which a schema merged in later may yet demand.
  if (!schema.contains("type") || type_list(schema["type"]) != Json{"object"}) return false;
  if (schema.value("nullable", Json(false)) == Json(true)) return false;
  if (!schema.contains("required") || !schema["required"].is_array() || !schema.contains("properties")) return false;
  const bool closed = of_others(schema) == Json(false) && !schema.contains("patternProperties");
  return std::any_of(schema["required"].begin(), schema["required"].end(), [&](const Json& name) {
    if (!name.is_string() || !schema["properties"].is_object()) return false;
    const auto at = schema["properties"].find(name.get<std::string>());
    return at != schema["properties"].end() ? *at == Json(false) : closed;
  });
}

bool is_plain(const Json& schema) {
  if (!schema.is_object()) return false;
  for (const auto& [key, value] : schema.items()) {
    if (key != "type" && key != "const" && key != "enum" && key != kExcluded && !is_annotation(key)) return false;
  }
  return true;
}

// Merged at once where that is simple, so that contradictions show; else later.
Json both(const Json& a, const Json& b) {
  if (a == b) return a;
  if (a == Json(true) || b == Json(false)) return b;
  if (b == Json(true) || a == Json(false)) return a;
  if (is_plain(a) && is_plain(b)) return merge_schemas(a, b, "#");
  return {{"allOf", Json::array({a, b})}};
}

}  // namespace

Json closed_in_itself(Json schema, const std::string& pointer) {
  if (!schema.is_object() || !schema.contains("unevaluatedProperties")) return schema;
  const Json others = schema["unevaluatedProperties"];
  schema.erase("unevaluatedProperties");
  if (schema.contains("additionalProperties") || others == Json(true)) return schema;
  for (const char* key : {"anyOf", kExclusive}) {
    if (!schema.contains(key) || !schema[key].is_array()) continue;
    if (std::none_of(schema[key].begin(), schema[key].end(), may_list_properties)) continue;
    schema_error(
        pointer_to(pointer, "unevaluatedProperties"),
        "\"unevaluatedProperties\" next to alternatives that list properties is not supported in a schema that "
        "holds together with others");
  }
  schema["additionalProperties"] = others;
  return schema;
}

Json merge_schemas(const Json& a, const Json& b, const std::string& pointer) {
  if (a.is_boolean()) return a.get<bool>() ? b : a;
  if (b.is_boolean()) return b.get<bool>() ? a : b;
  if (!a.is_object() || !b.is_object()) schema_error(pointer, "expected an object or a boolean as schema");
  Json result = a;
  const bool by_place = has_places(a) || has_places(b);
  for (const auto& [key, value] : b.items()) {
    const bool alternatives = key == "anyOf" || key == kExclusive;
    if (key == "properties" || is_annotation(key) || key == "$defs" || key == "definitions") continue;
    if (by_place && (key == "prefixItems" || key == "items" || key == "additionalItems")) continue;
    if (key == "minContains" || key == "maxContains") continue;
    if (!result.contains(key)) {
      result[key] = value;
    } else if (alternatives && result[key] != value) {
      // Two sets of alternatives: the second takes the other name, which means the same here. Further ones must hold
      // in each alternative.
      const char* other = key == "anyOf" ? kExclusive : "anyOf";
      if (!result.contains(other)) {
        result[other] = value;
      } else if (result[other] != value) {
        if (!result[key].is_array()) schema_error(pointer_to(pointer, key), "expected a list of schemas");
        for (Json& branch : result[key]) branch = Json{{"allOf", Json::array({branch, Json{{"anyOf", value}}})}};
      }
    } else if (key == "const" && !equal(result[key], value)) {
      return false;
    } else if (list_of(key) != nullptr && result[key] != value) {
      append(result, list_of(key), value);
    } else if (key == "patternProperties" && result[key] != value) {
      result[key] = merge_name_patterns(result[key], value, pointer);
    } else {
      result[key] = merge_keyword(key, result[key], value, pointer);
    }
  }
  if (by_place) merge_places(a, b, pointer, result);
  if (result.contains("contains")) merge_contains(a, b, result);
  check_name_patterns(a, b, pointer);
  check_name_patterns(b, a, pointer);
  if (a.contains("properties") || b.contains("properties")) result["properties"] = merge_properties(a, b, pointer);
  return contradicts_itself(result) ? Json(false) : result;
}

}  // namespace ashlar::grammar
