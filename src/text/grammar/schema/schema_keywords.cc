// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/schema/schema_keywords.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

namespace ashlar::grammar {
namespace {

constexpr std::array<std::string_view, 42> kUnderstood = {"type",
                                                          "properties",
                                                          "required",
                                                          "additionalProperties",
                                                          "unevaluatedProperties",
                                                          "items",
                                                          "prefixItems",
                                                          "minItems",
                                                          "maxItems",
                                                          "enum",
                                                          "const",
                                                          "anyOf",
                                                          "oneOf",
                                                          "allOf",
                                                          "$ref",
                                                          "$defs",
                                                          "definitions",
                                                          "minLength",
                                                          "maxLength",
                                                          "pattern",
                                                          "format",
                                                          "minimum",
                                                          "maximum",
                                                          "exclusiveMinimum",
                                                          "exclusiveMaximum",
                                                          "nullable",
                                                          "multipleOf",
                                                          "additionalItems",
                                                          "uniqueItems",
                                                          "minProperties",
                                                          "maxProperties",
                                                          "patternProperties",
                                                          "propertyNames",
                                                          "contains",
                                                          "minContains",
                                                          "maxContains",
                                                          "not",
                                                          "if",
                                                          "then",
                                                          "else",
                                                          "dependentRequired",
                                                          "dependentSchemas"};
constexpr std::array<std::string_view, 12> kAnnotations = {"title",      "description", "default",   "examples",
                                                           "example",    "$schema",     "$id",       "$comment",
                                                           "deprecated", "readOnly",    "writeOnly", "discriminator"};

std::string unescaped(std::string_view step, const std::string& pointer) {
  std::string out;
  for (size_t i = 0; i < step.size(); ++i) {
    const auto hex = [&](size_t at) {
      return at < step.size() && std::isxdigit(static_cast<unsigned char>(step[at])) != 0;
    };
    if (step[i] == '%' && hex(i + 1) && hex(i + 2)) {
      out += static_cast<char>(std::stoi(std::string(step.substr(i + 1, 2)), nullptr, 16));
      i += 2;
    } else if (step[i] == '~') {
      if (i + 1 >= step.size() || (step[i + 1] != '0' && step[i + 1] != '1')) {
        schema_error(pointer, "\"$ref\" has a '~' that is neither ~0 nor ~1");
      }
      out += step[++i] == '0' ? '~' : '/';
    } else {
      out += step[i];
    }
  }
  return out;
}

}  // namespace

Json type_list(const Json& type) { return type.is_array() ? type : Json::array({type}); }

bool is_annotation(std::string_view key) {
  return key.starts_with("x-") || std::find(kAnnotations.begin(), kAnnotations.end(), key) != kAnnotations.end();
}

void schema_error(const std::string& pointer, const std::string& problem) {
  throw Error("grammar", "the schema at " + for_message(pointer) + ": " + problem);
}

std::string pointer_to(const std::string& pointer, std::string_view step) {
  std::string out = pointer + "/";
  for (const char c : step) out += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  return out;
}

void check_keywords(const Json& schema, const std::string& pointer) {
  for (const auto& [key, value] : schema.items()) {
    if (is_annotation(key) || (!key.empty() && key[0] == kInternal)) continue;
    if (std::find(kUnderstood.begin(), kUnderstood.end(), key) == kUnderstood.end()) {
      schema_error(pointer_to(pointer, key), "the keyword \"" + for_message(key) + "\" is not supported");
    }
  }
}

const Json& follow_ref(const Json& root, const std::string& ref, const std::string& pointer) {
  if (ref != "#" && !ref.starts_with("#/")) {
    schema_error(pointer,
                 "\"$ref\" is \"" + for_message(ref) + "\"; expected a place in this schema such as #/$defs/x");
  }
  const Json* at = &root;
  for (size_t begin = 2; ref.size() > 1 && begin <= ref.size();) {
    const size_t end = std::min(ref.find('/', begin), ref.size());
    const std::string step = unescaped(std::string_view(ref).substr(begin, end - begin), pointer);
    const Json* next = nullptr;
    if (at->is_object() && at->contains(step)) {
      next = &(*at)[step];
    } else if (at->is_array() && !step.empty() && step.size() < 7 &&
               std::all_of(step.begin(), step.end(), [](unsigned char c) { return std::isdigit(c) != 0; }) &&
               std::stoul(step) < at->size()) {
      next = &(*at)[std::stoul(step)];
    }
    if (next == nullptr) schema_error(pointer, "\"$ref\" is \"" + for_message(ref) + "\", which is not there");
    at = next;
    begin = end + 1;
  }
  return *at;
}

const Json& excluded_values(const Json& schema) {
  static const Json none = Json::array();
  const auto at = schema.find(kExcluded);
  return at == schema.end() ? none : *at;
}

bool equal(const Json& a, const Json& b) {
  if (a.is_object() && b.is_object()) {
    if (a.size() != b.size()) return false;
    for (const auto& [name, value] : a.items()) {
      const auto other = b.find(name);
      if (other == b.end() || !equal(value, *other)) return false;
    }
    return true;
  }
  if (a.is_array() && b.is_array()) return std::equal(a.begin(), a.end(), b.begin(), b.end(), equal);
  return a == b;
}

bool has_type(const Json& value, const Json& type) {
  const Json types = type_list(type);
  return std::any_of(types.begin(), types.end(), [&value](const Json& name) {
    if (name == "integer") {
      return value.is_number_integer() ||
             (value.is_number_float() && std::floor(value.get<double>()) == value.get<double>());
    }
    return (name == "null" && value.is_null()) || (name == "boolean" && value.is_boolean()) ||
           (name == "string" && value.is_string()) || (name == "number" && value.is_number()) ||
           (name == "array" && value.is_array()) || (name == "object" && value.is_object());
  });
}

bool has_type_of(const Json& value, const Json& schema) {
  if (value.is_null() && schema.value("nullable", Json(false)) == Json(true)) return true;
  return !schema.contains("type") || has_type(value, schema["type"]);
}

}  // namespace ashlar::grammar
