#include "text/grammar/schema_merge.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/error.h"

namespace ashlar::grammar {
namespace {

constexpr std::array<std::string_view, 31> kUnderstood = {"type",
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
                                                          "maxProperties"};
constexpr std::array<std::string_view, 12> kAnnotations = {"title",      "description", "default",   "examples",
                                                           "example",    "$schema",     "$id",       "$comment",
                                                           "deprecated", "readOnly",    "writeOnly", "discriminator"};

bool is_annotation(const std::string& key) {
  return key.starts_with("x-") || std::find(kAnnotations.begin(), kAnnotations.end(), key) != kAnnotations.end();
}

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

Json both(const Json& a, const Json& b) { return a == b ? a : Json{{"allOf", Json::array({a, b})}}; }

// True if the schema says by itself that other properties are not allowed.
bool is_closed(const Json& schema) {
  const auto it = schema.find("additionalProperties");
  return it != schema.end() && it->is_boolean() && !it->get<bool>();
}

Json merge_properties(const Json& a, const Json& b) {
  Json result = Json::object();
  const Json none = Json::object();
  const Json& left = a.contains("properties") ? a["properties"] : none;
  const Json& right = b.contains("properties") ? b["properties"] : none;
  for (const auto& [name, schema] : left.items()) {
    if (right.contains(name)) {
      result[name] = both(schema, right[name]);
    } else if (!is_closed(b)) {
      result[name] = schema;
    }
  }
  for (const auto& [name, schema] : right.items()) {
    if (!left.contains(name) && !is_closed(a)) result[name] = schema;
  }
  return result;
}

Json type_list(const Json& type) { return type.is_array() ? type : Json::array({type}); }

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
    return std::find(list.begin(), list.end(), item) != list.end();
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
  if (any_of({"minimum", "minLength", "minItems", "exclusiveMinimum"}) && a.is_number() && b.is_number()) {
    return a.get<double>() > b.get<double>() ? a : b;
  }
  if (any_of({"maximum", "maxLength", "maxItems", "exclusiveMaximum"}) && a.is_number() && b.is_number()) {
    return a.get<double>() < b.get<double>() ? a : b;
  }
  if (key == "items" && !a.is_array() && !b.is_array()) return both(a, b);
  if (any_of({"additionalProperties", "unevaluatedProperties"})) {
    if (a.is_boolean()) return a.get<bool>() ? b : a;
    if (b.is_boolean()) return b.get<bool>() ? a : b;
  }
  if (key == "nullable") return false;
  schema_error(pointer, "two different \"" + key + "\" hold at once, which is not supported");
}

}  // namespace

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
    if (is_annotation(key)) continue;
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

bool has_type(const Json& value, const Json& type) {
  const Json types = type_list(type);
  return std::any_of(types.begin(), types.end(), [&value](const Json& name) {
    if (name == "integer") {
      return value.is_number_integer() ||
             (value.is_number_float() && value.get<double>() == static_cast<double>(static_cast<int64_t>(
                                                                    std::clamp(value.get<double>(), -9e15, 9e15))));
    }
    return (name == "null" && value.is_null()) || (name == "boolean" && value.is_boolean()) ||
           (name == "string" && value.is_string()) || (name == "number" && value.is_number()) ||
           (name == "array" && value.is_array()) || (name == "object" && value.is_object());
  });
}

Json merge_schemas(const Json& a, const Json& b, const std::string& pointer) {
  if (a.is_boolean()) return a.get<bool>() ? b : a;
  if (b.is_boolean()) return b.get<bool>() ? a : b;
  if (!a.is_object() || !b.is_object()) schema_error(pointer, "expected an object or a boolean as schema");
  Json result = a;
  for (const auto& [key, value] : b.items()) {
    const bool alternatives = key == "anyOf" || key == "oneOf";
    if (key == "properties" || is_annotation(key) || key == "$defs" || key == "definitions") continue;
    if (!result.contains(key)) {
      result[key] = value;
    } else if (alternatives && result[key] != value) {
      // Two sets of alternatives: the second takes the other name, which means the same here.
      const char* other = key == "anyOf" ? "oneOf" : "anyOf";
      if (result.contains(other)) schema_error(pointer, "more than two anyOf or oneOf hold at once");
      result[other] = value;
    } else if (key == "const" && result[key] != value) {
      return false;
    } else {
      result[key] = merge_keyword(key, result[key], value, pointer);
    }
  }
  if (a.contains("properties") || b.contains("properties")) result["properties"] = merge_properties(a, b);
  if (result.contains("type") && result["type"].is_array() && result["type"].empty()) return false;
  return result;
}

}  // namespace ashlar::grammar
