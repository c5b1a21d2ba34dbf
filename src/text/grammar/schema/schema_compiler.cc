// SPDX-License-Identifier: Apache-2.0
// What stands around the types of a schema: references, merging, alternatives.

#include "text/grammar/schema/schema_compiler.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "text/grammar/schema/schema_merge.h"

namespace ashlar::grammar {
namespace {

// Keywords that restrict values, by the type they belong to.
struct TypeKeywords {
  const char* type;
  std::array<const char*, 9> keywords;
};
constexpr TypeKeywords kTypeKeywords[] = {
    {"object",
     {"properties", "required", "additionalProperties", "unevaluatedProperties", "minProperties", "maxProperties",
      "patternProperties", "propertyNames"}},
    {"array",
     {"items", "prefixItems", "additionalItems", "minItems", "maxItems", "uniqueItems", "contains", "minContains",
      "maxContains"}},
    {"string", {"minLength", "maxLength", "pattern", "format", kPatterns, kNotPatterns}},
    {"number", {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", kMultiples, kNotMultiples}},
};
constexpr const char* kStructure[] = {"type",
                                      "enum",
                                      "const",
                                      "anyOf",
                                      "oneOf",
                                      kExclusive,
                                      "allOf",
                                      "$ref",
                                      "not",
                                      "if",
                                      "dependentRequired",
                                      "nullable",
                                      kExcluded,
                                      "dependentSchemas"};
// Keywords that are rewritten into others before anything is made of them.
constexpr const char* kRewritten[] = {"$ref", "allOf", "oneOf", "not", "if", "dependentRequired", "dependentSchemas"};

bool has_keyword_of(const Json& schema, const TypeKeywords& of) {
  return std::any_of(of.keywords.begin(), of.keywords.end(),
                     [&schema](const char* key) { return key != nullptr && schema.contains(key); });
}

}  // namespace

bool has_more_than(const Json& schema, std::string_view key) {
  const auto other = [&](const char* name) { return name != key && schema.contains(name); };
  return std::any_of(std::begin(kStructure), std::end(kStructure), other) ||
         std::any_of(std::begin(kTypeKeywords), std::end(kTypeKeywords),
                     [&schema](const TypeKeywords& of) { return has_keyword_of(schema, of); });
}

bool restricts(const Json& schema, const Json& value) {
  const std::string_view type = value.is_number() ? "number" : value.type_name();
  return std::any_of(std::begin(kTypeKeywords), std::end(kTypeKeywords),
                     [&](const TypeKeywords& of) { return of.type == type && has_keyword_of(schema, of); });
}

int64_t weight(const Json& value) {
  constexpr size_t kText = 16;  // bytes of a text that count as a value
  if (value.is_string()) return 1 + static_cast<int64_t>(value.get_ref<const std::string&>().size() / kText);
  int64_t total = 1;
  if (value.is_array()) {
    for (const Json& part : value) total += weight(part);
  } else if (value.is_object()) {
    for (const auto& [name, part] : value.items()) total += static_cast<int64_t>(name.size() / kText) + weight(part);
  }
  return total;
}

SchemaCompiler::SchemaCompiler(Builder& builder, JsonValues& values, const Json& schema)
    : builder_(builder), values_(values), root_(schema) {}

Expr SchemaCompiler::run() { return run(root_); }

Expr SchemaCompiler::run(const Json& schema) {
  try {
    return run_on(schema, "#");
  } catch (const LimitExceeded& error) {
    explain(error);
  }
}

Expr SchemaCompiler::run_on(const Json& schema, const std::string& pointer) {
  const Expr result = value(schema, pointer);
  while (!pending_.empty()) {  // references one after the other, so that chains of them need no stack
    const Pending next = pending_.back();
    pending_.pop_back();
    builder_.define(next.rule, value(follow_ref(root_, next.ref, next.pointer), next.ref));
  }
  return result;
}

Expr SchemaCompiler::value(const Json& schema, const std::string& pointer) {
  const Deeper deeper(depth_);
  builder_.check_nesting(depth_, "the schema at " + for_message(pointer));
  builder_.step();
  if (schema.is_boolean()) return schema.get<bool>() ? values_.value() : builder_.never();
  if (!schema.is_object()) schema_error(pointer, std::string("expected an object, found ") + schema.type_name());
  check_keywords(schema, pointer);
  if (schema.contains("$ref") && schema["$ref"].is_string() && !has_more_than(schema, "$ref")) {
    return reference(schema["$ref"].get<std::string>(), pointer);
  }
  const bool rewrite = std::any_of(std::begin(kRewritten), std::end(kRewritten),
                                   [&schema](const char* key) { return schema.contains(key); });
  return rewrite ? remembered(schema, pointer) : flat_value(schema, pointer);
}

Expr SchemaCompiler::reference(const std::string& ref, const std::string& pointer) {
  const auto known = refs_.find(ref);
  if (known != refs_.end()) return builder_.call(known->second);
  follow_ref(root_, ref, pointer);
  const Rule rule = builder_.declare(ref);
  refs_.emplace(ref, rule);
  pending_.push_back({ref, pointer, rule});
  return builder_.call(rule);
}

// A schema that must be merged first. It may contain itself, so it gets a rule under its own text.
Expr SchemaCompiler::remembered(const Json& schema, const std::string& pointer) {
  builder_.step(weight(schema));
  const std::string text = "=" + json_text(schema);
  const auto known = refs_.find(text);
  if (known != refs_.end()) return builder_.call(known->second);
  const Rule rule = builder_.declare(pointer);
  refs_.emplace(text, rule);
  conditions_.clear();
  const Json flat = flattened(schema, pointer, 0);
  builder_.define(rule, flat.is_object() ? flat_value(flat, pointer) : value(flat, pointer));
  return builder_.call(rule);
}

// The schema with nothing at its top that has to be rewritten.
Json SchemaCompiler::flattened(const Json& schema, const std::string& pointer, int32_t depth) {
  builder_.check_nesting(depth, "the references of the schema at " + for_message(pointer));
  builder_.step(weight(schema));
  if (!schema.is_object()) return schema;
  check_keywords(schema, pointer);
  Json result = schema;
  for (const char* key : kRewritten) result.erase(key);
  for (const char* key : {"then", "else"}) result.erase(key);
  if (schema.contains("$ref")) {
    if (!schema["$ref"].is_string()) schema_error(pointer_to(pointer, "$ref"), "expected a string");
    const auto ref = schema["$ref"].get<std::string>();
    result = merged(result, member(follow_ref(root_, ref, pointer), ref, depth + 1), pointer);
  }
  if (schema.contains("allOf")) {
    const Json& parts = schema["allOf"];
    const std::string place = pointer_to(pointer, "allOf");
    if (!parts.is_array()) schema_error(place, "expected a list of schemas");
    for (size_t i = 0; i < parts.size(); ++i) {
      result = merged(result, member(parts[i], pointer_to(place, std::to_string(i)), depth + 1), place);
    }
  }
  if (schema.contains("oneOf")) {
    const Json& ways = schema["oneOf"];
    const Json exact = loosely_ > 0 ? ways : exclusive(ways, result, pointer_to(pointer, "oneOf"), depth);
    result = merged(result, {{kExclusive, exact}}, pointer);
  }
  const Json more = conditions(schema, pointer, depth);
  return more == Json(true) ? result : merged(result, member(more, pointer, depth + 1), pointer);
}

Json SchemaCompiler::member(const Json& schema, const std::string& pointer, int32_t depth) {
  return closed_in_itself(flattened(schema, pointer, depth), pointer);
}

Json SchemaCompiler::merged(const Json& a, const Json& b, const std::string& pointer) {
  builder_.step(weight(a) + weight(b));
  // Looking a member up is linear in the members.
  const auto members = [](const Json& schema) {
    return schema.is_object() && schema.contains("properties") ? static_cast<int64_t>(schema["properties"].size()) : 0;
  };
  builder_.step(members(a) * members(b) / 16);
  // So is looking for a value in a list.
  const auto values = [](const Json& schema, const char* key) {
    return schema.is_object() && schema.contains(key) ? static_cast<int64_t>(schema[key].size()) : 0;
  };
  for (const char* key : {"enum", "required", kExcluded, kPatterns, kNotPatterns, kMultiples, kNotMultiples}) {
    builder_.step(values(a, key) * values(b, key) / 4);
  }
  return merge_schemas(a, b, pointer);
}

Expr SchemaCompiler::flat_value(const Json& schema, const std::string& pointer) {
  if (schema.contains("anyOf")) return choices(schema, "anyOf", pointer);
  if (schema.contains(kExclusive)) return choices(schema, kExclusive, pointer);
  if (schema.contains("enum") || schema.contains("const")) return constants(schema, pointer);
  return of_types(schema, pointer);
}

Expr SchemaCompiler::choices(const Json& schema, const char* key, const std::string& pointer) {
  const std::string place = pointer_to(pointer, key[0] == kInternal ? "oneOf" : key);
  const Json& branches = schema[key];
  if (!branches.is_array() || branches.empty()) schema_error(place, "expected a list of schemas");
  Json rest = schema;
  rest.erase(key);
  const bool alone = !has_more_than(rest, "");
  std::vector<Expr> ways;
  for (size_t i = 0; i < branches.size(); ++i) {
    const std::string branch = pointer_to(place, std::to_string(i));
    if (alone) {
      ways.push_back(value(branches[i], branch));
    } else {
      const Deeper inside(merged_branches_);
      ways.push_back(value(merged(rest, member(branches[i], branch, 0), branch), branch));
    }
  }
  return builder_.alternatives(std::move(ways));
}

Expr SchemaCompiler::of_types(const Json& schema, const std::string& pointer) {
  std::vector<std::string> types;
  const auto add = [&](const Json& name) {
    if (!name.is_string()) schema_error(pointer_to(pointer, "type"), "expected a type's name or a list of them");
    const auto type = name.get<std::string>();
    if (std::find(types.begin(), types.end(), type) == types.end()) types.push_back(type);
  };
  if (schema.contains("type")) {
    if (schema["type"].is_array()) {
      for (const Json& name : schema["type"]) add(name);
    } else {
      add(schema["type"]);
    }
    if (schema.value("nullable", Json(false)) == Json(true)) add("null");
  } else {
    for (const TypeKeywords& of : kTypeKeywords) {
      if (has_keyword_of(schema, of)) add(of.type);
    }
    if (types.empty() && !schema.contains(kExcluded)) return values_.value();
    if (types.empty()) types = {"object", "array", "string", "number", "boolean", "null"};
  }
  if (std::find(types.begin(), types.end(), "number") != types.end()) std::erase(types, "integer");
  std::vector<Expr> ways;
  for (const std::string& type : types) ways.push_back(of_type(type, schema, pointer));
  return builder_.alternatives(std::move(ways));
}

Expr SchemaCompiler::of_type(const std::string& type, const Json& schema, const std::string& pointer) {
  const Json& excluded = excluded_values(schema);
  if (type == "null" || type == "boolean") {
    std::vector<std::string> texts;
    for (const Json& value : type == "null" ? Json::array({nullptr}) : Json::array({true, false})) {
      if (std::find(excluded.begin(), excluded.end(), value) == excluded.end()) texts.push_back(json_text(value));
    }
    return builder_.strings(std::move(texts));
  }
  const bool structured = type == "array" || type == "object";
  for (const Json& value : excluded) {
    if (structured && value.type_name() == type && !value.empty()) {
      schema_error(pointer_to(pointer, "not"), "an object or list with members inside \"not\" is not supported");
    }
  }
  if (type == "string") return string(schema, pointer);
  if (type == "integer") return integer(schema, pointer);
  if (type == "number") return number(schema, pointer);
  if (type == "array") return array(schema, pointer);
  if (type == "object") return object(schema, pointer);
  schema_error(pointer_to(pointer, "type"), "\"" + for_message(type) + "\" is no type of JSON schema");
}

}  // namespace ashlar::grammar
