// `oneOf`: alternatives of which exactly one holds, as alternatives that say themselves why no other one does.

#include <algorithm>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "text/grammar/schema_compiler.h"
#include "text/grammar/schema_merge.h"

namespace ashlar::grammar {
namespace {

constexpr int32_t kDeepest = 4;  // properties of properties, alternatives of alternatives

constexpr int32_t kFarthestCount = 500;  // characters
constexpr size_t kMostWays = 250;        // in which an alternative may hurt all others: each becomes a schema

const char* type_of(const Json& value) {
  if (value.is_null()) return "null";
  if (value.is_boolean()) return "boolean";
  if (value.is_string()) return "string";
  if (value.is_object()) return "object";
  return value.is_array() ? "array" : "number";
}

// Types that values of a schema may have; an integer is a number.
std::set<std::string> types_of(const Json& schema) {
  if (!schema.contains("type")) return {"object", "array", "string", "number", "boolean", "null"};
  std::set<std::string> types;
  const Json& type = schema["type"];
  for (const Json& name : type.is_array() ? type : Json::array({type})) {
    if (name.is_string()) types.insert(name == "integer" ? "number" : name.get<std::string>());
  }
  if (schema.value("nullable", Json(false)) == Json(true)) types.insert("null");
  return types;
}

bool names_property(const Json& schema, const char* key, const std::string& name) {
  if (!schema.contains(key)) return false;
  const Json& names = schema[key];
  if (names.is_object()) return names.contains(name);
  return names.is_array() && std::find(names.begin(), names.end(), name) != names.end();
}

std::vector<std::string> required_of(const Json& schema) {
  std::vector<std::string> names;
  if (!schema.contains("required") || !schema["required"].is_array()) return names;
  for (const Json& name : schema["required"]) {
    if (name.is_string()) names.push_back(name.get<std::string>());
  }
  return names;
}

// The name that `other` demands and `schema` leaves unlisted, if it has one.
const std::string* unlisted(const Json& schema, const std::vector<std::string>& demanded) {
  if (!schema.contains("properties") || schema.contains("patternProperties")) return nullptr;
  for (const std::string& name : demanded) {
    if (!names_property(schema, "properties", name) && !names_property(schema, "required", name)) return &name;
  }
  return nullptr;
}

// The tag of most alternatives there are, found without looking any closer.
bool have_other_constants(const Json& a, const Json& b) {
  return a.is_object() && b.is_object() && a.contains("const") && b.contains("const") && !equal(a["const"], b["const"]);
}

// Bounds of numbers or of lengths: what one begins with lies beyond the other's end.
bool ranges_apart(const Json& a, const Json& b, const char* min, const char* max) {
  const auto bound = [](const Json& schema, const char* key, double none) {
    return schema.contains(key) && schema[key].is_number() ? schema[key].get<double>() : none;
  };
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return bound(a, min, -kInfinity) > bound(b, max, kInfinity) || bound(b, min, -kInfinity) > bound(a, max, kInfinity);
}

// The same, where one of the two bounds is left out itself.
bool ranges_meet_outside(const Json& a, const Json& b) {
  const auto ends_before = [](const Json& low, const Json& high) {
    for (const auto& [end, begin] : {std::pair{"exclusiveMaximum", "minimum"},
                                     {"maximum", "exclusiveMinimum"},
                                     {"exclusiveMaximum", "exclusiveMinimum"}}) {
      if (low.contains(end) && low[end].is_number() && high.contains(begin) && high[begin].is_number() &&
          low[end].get<double>() <= high[begin].get<double>()) {
        return true;
      }
    }
    return false;
  };
  return ends_before(a, b) || ends_before(b, a);
}

}  // namespace

// Whether no value can be of both schemas, as far as that shows. Both are flattened.
bool SchemaCompiler::never_both(const Json& a, const Json& b, const std::string& pointer, int32_t depth) {
  builder_.step(8);
  if (a == Json(false) || b == Json(false)) return true;
  if (!a.is_object() || !b.is_object() || depth > kDeepest) return false;
  // Each alternative, or each constant, of one is none of the other's.
  const auto apart = [&](const Json& one, const Json& other) {
    for (const char* key : {"anyOf", kExclusive}) {
      if (!one.contains(key) || !one[key].is_array()) continue;
      const bool never = std::all_of(one[key].begin(), one[key].end(), [&](const Json& way) {
        return never_both(flattened(way, pointer, depth), other, pointer, depth + 1);
      });
      if (never) return true;
    }
    if (!one.contains("enum") && !one.contains("const")) return false;
    const std::vector<Json> values = allowed_constants(one, pointer);
    const bool listed = other.contains("enum") || other.contains("const");
    const std::vector<Json> others = listed ? allowed_constants(other, pointer) : std::vector<Json>();
    return std::all_of(values.begin(), values.end(), [&](const Json& value) {
      builder_.step(static_cast<int64_t>(others.size()));
      if (types_of(other).count(type_of(value)) == 0) return true;
      return listed &&
             std::none_of(others.begin(), others.end(), [&](const Json& known) { return equal(known, value); });
    });
  };
  if (apart(a, b) || apart(b, a)) return true;
  const std::set<std::string> types = types_of(a);
  const std::set<std::string> others = types_of(b);
  return std::all_of(types.begin(), types.end(), [&](const std::string& type) {
    return others.count(type) == 0 || never_both_of(type, a, b, pointer, depth);
  });
}

bool SchemaCompiler::never_both_of(const std::string& type, const Json& a, const Json& b, const std::string& pointer,
                                   int32_t depth) {
  if (type == "number") return ranges_apart(a, b, "minimum", "maximum") || ranges_meet_outside(a, b);
  if (type == "array") return ranges_apart(a, b, "minItems", "maxItems");
  if (type == "string") {
    const auto texts = [&](Json schema) {  // all of them: string_set leaves out some where it counts far
      if (schema.contains("maxLength") && schema["maxLength"] > kFarthestCount) schema.erase("maxLength");
      return string_set(schema, pointer);
    };
    try {
      return texts(a).with(builder_, texts(b)).empty();
    } catch (const TextSet::TooLarge&) {
      return false;
    }
  }
  if (type != "object") return false;
  const auto lacks_what_is_required = [](const Json& one, const Json& other) {
    const bool closed = one.value("additionalProperties", Json(true)) == Json(false);
    return closed && unlisted(one, required_of(other)) != nullptr;
  };
  if (lacks_what_is_required(a, b) || lacks_what_is_required(b, a)) return true;
  std::vector<std::string> shared;
  for (const std::string& name : required_of(a)) {
    if (!names_property(b, "required", name) || !names_property(a, "properties", name) ||
        !names_property(b, "properties", name)) {
      continue;
    }
    if (have_other_constants(a["properties"][name], b["properties"][name])) return true;
    shared.push_back(name);
  }
  for (const std::string& name : shared) {
    const std::string place = pointer_to(pointer, name);
    if (never_both(flattened(a["properties"][name], place, depth), flattened(b["properties"][name], place, depth),
                   place, depth + 1)) {
      return true;
    }
  }
  return false;
}

// What hurts an alternative, for values of `known`: what it names does not hold, or an object that it closes has
// another of the properties that `known` lists.
Json SchemaCompiler::hurting(const Json& branch, const Json& known, const std::string& pointer, int32_t depth) {
  builder_.check_nesting(depth, "the references of the schema at " + for_message(pointer));
  if (!branch.is_object()) return negated(branch, pointer, depth);
  if (branch.contains("$ref") && branch["$ref"].is_string() && !has_more_than(branch, "$ref")) {
    const auto ref = branch["$ref"].get<std::string>();
    return hurting(follow_ref(root_, ref, pointer), known, ref, depth + 1);
  }
  const bool closed = branch.contains("properties") && !branch.contains("patternProperties") &&
                      branch.value("additionalProperties", Json(true)) == Json(false);
  if (!closed) return negated(branch, pointer, depth);
  Json open = branch;
  open.erase("additionalProperties");
  Json ways = Json::array({negated(open, pointer, depth)});
  const Json listed = known.is_object() ? known.value("properties", Json::object()) : Json::object();
  for (const auto& [name, of] : listed.items()) {
    if (!names_property(branch, "properties", name) && of != Json(false)) {
      ways.push_back({{"type", "object"}, {"required", {name}}});
    }
  }
  return {{"anyOf", std::move(ways)}};
}

// The alternatives of `oneOf`. `rest` stands beside it and holds whichever is chosen. An alternative is left as it is
// where it contradicts the others anyway; else it gets what hurts each of the others that it might agree with.
Json SchemaCompiler::exclusive(const Json& branches, const Json& rest, const std::string& pointer, int32_t depth) {
  if (!branches.is_array() || branches.empty()) schema_error(pointer, "expected a list of schemas");
  const Deeper inside(merged_branches_);
  const size_t n = branches.size();
  std::vector<Json> flat;
  std::vector<std::string> places;
  std::vector<bool> apart(n * n);
  {
    const Deeper loosely(loosely_);
    for (size_t i = 0; i < n; ++i) {
      places.push_back(pointer_to(pointer, std::to_string(i)));
      flat.push_back(merged(rest, flattened(branches[i], places[i], depth + 1), places[i]));
      for (size_t j = 0; j < i; ++j) apart[i * n + j] = apart[j * n + i] = never_both(flat[i], flat[j], pointer, 0);
    }
  }
  Json result = Json::array();
  for (size_t i = 0; i < n; ++i) {
    Json all = Json::array({branches[i]});
    size_t ways = 1;
    for (size_t j = 0; j < n; ++j) {
      if (i == j || apart[i * n + j]) continue;
      // What an object lists is all that it has, so that it hardly minds: a name less for it to have.
      const std::vector<std::string> demanded = required_of(flat[j]);
      const std::string* name = flat[i].is_object() && !flat[i].contains("additionalProperties") &&
                                        !flat[i].contains("unevaluatedProperties") && types_of(flat[i]).size() == 1
                                    ? unlisted(flat[i], demanded)
                                    : nullptr;
      if (name != nullptr && types_of(flat[i]).count("object") == 1) {
        all.push_back({{"properties", {{*name, false}}}});
        continue;
      }
      try {
        all.push_back(hurting(branches[j], flat[i], places[j], depth + 1));
        ways *= all.back().is_object() && all.back().contains("anyOf") ? all.back()["anyOf"].size() : 1;
        if (ways > kMostWays) throw Unsupported("grammar", "there are too many ways");
      } catch (const Unsupported& error) {
        schema_error(pointer, "alternatives " + std::to_string(i) + " and " + std::to_string(j) +
                                  " may hold at once, and what keeps them apart cannot be said: " +
                                  std::string(error.message()) +
                                  ". Use \"anyOf\", or a required property with another constant in each");
      }
    }
    result.push_back(all.size() == 1 ? all[0] : Json{{"allOf", std::move(all)}});
  }
  return result;
}

}  // namespace ashlar::grammar
