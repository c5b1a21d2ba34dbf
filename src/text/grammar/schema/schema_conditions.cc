// SPDX-License-Identifier: Apache-2.0
// What does not hold, and what holds only under a condition, in words of what does hold.

#include "text/grammar/schema/schema_compiler.h"
#include "text/grammar/schema/schema_merge.h"

namespace ashlar::grammar {
namespace {

// A number keyword and the one that says the opposite.
struct Opposite {
  const char* key;
  const char* type;
  const char* opposite;
  int32_t shift;  // added to the value
};
constexpr Opposite kOpposites[] = {
    {"minimum", "number", "exclusiveMaximum", 0},
    {"maximum", "number", "exclusiveMinimum", 0},
    {"exclusiveMinimum", "number", "maximum", 0},
    {"exclusiveMaximum", "number", "minimum", 0},
    {"minLength", "string", "maxLength", -1},
    {"maxLength", "string", "minLength", 1},
    {"minItems", "array", "maxItems", -1},
    {"maxItems", "array", "minItems", 1},
    {"minProperties", "object", "maxProperties", -1},
    {"maxProperties", "object", "minProperties", 1},
};

constexpr size_t kMaxPairs = 6;  // alternatives of a `oneOf` that must not hold: it may since two of them do

Json any_of(Json ways) {
  if (ways.empty()) return false;
  if (ways.size() == 1) return ways[0];
  return {{"anyOf", std::move(ways)}};
}

Json other_types(const Json& type) {
  const Json listed = type.is_array() ? type : Json::array({type});
  const auto has = [&listed](const char* name) {
    for (const Json& one : listed) {
      if (one == name) return true;
    }
    return false;
  };
  Json result = {{"type", Json::array()}};
  for (const char* name : {"object", "array", "string", "boolean", "null"}) {
    if (!has(name)) result["type"].push_back(name);
  }
  if (!has("number")) {
    result["type"].push_back("number");
    if (has("integer")) result[kNotMultiples] = {1};
  }
  return result["type"].empty() ? Json(false) : result;
}

Json without_property(const std::string& name) { return {{"type", "object"}, {"properties", {{name, false}}}}; }

}  // namespace

// What no schema with these keywords alone allows: one of them is hurt.
Json SchemaCompiler::negated(const Json& schema, const std::string& pointer, int32_t depth) {
  builder_.check_nesting(depth, "the negation of the schema at " + for_message(pointer));
  builder_.step(4);
  if (schema.is_boolean()) return !schema.get<bool>();
  if (!schema.is_object()) schema_error(pointer, std::string("expected an object, found ") + schema.type_name());
  check_keywords(schema, pointer);
  Json ways = Json::array();
  for (const auto& [key, of] : schema.items()) {
    const std::string place = pointer_to(pointer, key);
    const auto list = [&, &of = of]() -> const Json& {
      if (!of.is_array()) schema_error(place, "expected a list");
      return of;
    };
    bool known = is_annotation(key) || key == "$defs" || key == "definitions";
    for (const Opposite& pair : kOpposites) {
      if (key != pair.key || !of.is_number()) continue;
      known = true;
      const Json value = pair.shift == 0 ? of : Json(of.get<double>() + pair.shift);
      if (pair.shift >= 0 || value >= 0) ways.push_back({{"type", pair.type}, {pair.opposite, value}});
    }
    if (known) continue;
    if (key == "type") {
      ways.push_back(other_types(of));
    } else if (key == "const") {
      ways.push_back({{kExcluded, Json::array({of})}});
    } else if (key == "enum") {
      ways.push_back({{kExcluded, list()}});
    } else if (key == "$ref" && of.is_string()) {
      const auto ref = of.get<std::string>();
      ways.push_back(negated(follow_ref(root_, ref, pointer), ref, depth + 1));
    } else if (key == "not") {
      ways.push_back(of);
    } else if (key == "anyOf") {
      Json all = Json::array();
      for (const Json& one : list()) all.push_back(negated(one, place, depth + 1));
      ways.push_back({{"allOf", std::move(all)}});
    } else if (key == "allOf") {
      for (const Json& one : list()) ways.push_back(negated(one, place, depth + 1));
    } else if (key == "oneOf" && !list().empty() && of.size() <= kMaxPairs) {
      Json all = Json::array();
      for (const Json& one : list()) all.push_back(negated(one, place, depth + 1));
      ways.push_back({{"allOf", std::move(all)}});
      for (size_t i = 0; i < of.size(); ++i) {
        for (size_t j = 0; j < i; ++j) ways.push_back({{"allOf", Json::array({of[i], of[j]})}});
      }
    } else if (key == "required") {
      for (const Json& name : list()) {
        if (!name.is_string()) schema_error(place, "expected a list of names");
        ways.push_back(without_property(name.get<std::string>()));
      }
    } else if (key == "properties" && of.is_object()) {
      for (const auto& [name, one] : of.items()) {
        Json no = negated(one, pointer_to(place, name), depth + 1);
        if (no == Json(false)) continue;
        ways.push_back({{"type", "object"}, {"required", {name}}, {"properties", {{name, std::move(no)}}}});
      }
    } else if (key == "pattern" && of.is_string()) {
      ways.push_back({{"type", "string"}, {kNotPatterns, Json::array({of})}});
    } else if (key == "format" && of.is_string()) {
      const std::string texts = widest_format_pattern(of.get<std::string>(), pointer);
      ways.push_back({{"type", "string"}, {kNotPatterns, Json::array({texts})}});
    } else if (key == "multipleOf" && of.is_number()) {
      ways.push_back({{"type", "number"}, {kNotMultiples, Json::array({of})}});
    } else if (key == "items" && !of.is_array() && !schema.contains("prefixItems")) {
      ways.push_back({{"type", "array"}, {"contains", negated(of, place, depth + 1)}});
    } else if (key == "contains" && !schema.contains("minContains") && !schema.contains("maxContains")) {
      ways.push_back({{"type", "array"}, {"items", negated(of, place, depth + 1)}});
    } else {
      throw Unsupported("grammar",
                        "the schema at " + for_message(place) + ": \"" + for_message(key) +
                            "\" is not supported inside \"not\", an \"if\" with an \"else\" or \"then\", or a "
                            "\"oneOf\" of which several may hold");
    }
  }
  return any_of(std::move(ways));
}

void SchemaCompiler::count_condition(const std::string& place) {
  if (conditions_.empty()) first_condition_ = place;
  conditions_.insert(place);
  if (conditions_.size() <= max_conditions_) return;
  max_conditions_ = conditions_.size();
  max_conditions_at_ = first_condition_;
}

void SchemaCompiler::explain(const LimitExceeded& error) const {
  if (max_conditions_ < 2) throw error;
  throw LimitExceeded("grammar", std::string(error.message()) + "; " + std::to_string(max_conditions_) +
                                     " conditions of one schema, the first at " + for_message(max_conditions_at_) +
                                     ", may multiply it");
}

// Everything that `not`, `if` and the dependent keywords say, as one schema.
Json SchemaCompiler::conditions(const Json& schema, const std::string& pointer, int32_t depth) {
  Json all = Json::array();
  if (schema.contains("not")) all.push_back(negated(schema["not"], pointer_to(pointer, "not"), depth));
  if (schema.contains("if") && (schema.contains("then") || schema.contains("else"))) {
    count_condition(pointer_to(pointer, "if"));
    const Json yes = {{"allOf", Json::array({schema["if"], schema.value("then", Json(true))})}};
    const Json no = negated(schema["if"], pointer_to(pointer, "if"), depth);
    all.push_back(any_of(Json::array({yes, {{"allOf", Json::array({no, schema.value("else", Json(true))})}}})));
  }
  for (const char* key : {"dependentRequired", "dependentSchemas"}) {
    if (!schema.contains(key)) continue;
    if (!schema[key].is_object()) schema_error(pointer_to(pointer, key), "expected an object");
    for (const auto& [name, of] : schema[key].items()) {
      count_condition(pointer_to(pointer_to(pointer, key), name));
      Json there = {{"type", "object"}, {"required", {name}}};
      if (key[9] == 'S') {
        there = {{"allOf", Json::array({std::move(there), of})}};
      } else {
        if (!of.is_array()) schema_error(pointer_to(pointer, key), "expected lists of names");
        for (const Json& other : of) there["required"].push_back(other);
      }
      all.push_back(any_of(Json::array({without_property(name), std::move(there)})));
    }
  }
  if (all.empty()) return true;
  return all.size() == 1 ? all[0] : Json{{"allOf", std::move(all)}};
}

}  // namespace ashlar::grammar
