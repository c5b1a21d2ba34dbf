// SPDX-License-Identifier: Apache-2.0
// `oneOf`: alternatives of which exactly one holds, as alternatives that say themselves why no other one does.

#include <algorithm>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "text/grammar/schema/schema_compiler.h"
#include "text/grammar/schema/schema_merge.h"

namespace ashlar::grammar {
namespace {

constexpr int32_t kDeepest = 4;             // properties of properties, alternatives of alternatives
constexpr int32_t kFarthestCount = 500;     // characters
constexpr int32_t kMaxComparedTexts = 100;  // pairs of sets of texts, each of which may take a while
constexpr size_t kMaxAlternatives = 128;
constexpr size_t kMaxWays = 250;  // in which an alternative may hurt all others: each becomes a schema

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

bool lists_property(const Json& schema, const std::string& name) {
  const auto at = schema.find("properties");
  return at != schema.end() && at->is_object() && at->contains(name);
}

bool requires_property(const Json& schema, const std::string& name) {
  const auto at = schema.find("required");
  return at != schema.end() && at->is_array() && std::any_of(at->begin(), at->end(), [&](const Json& one) {
           return one.is_string() && one.get_ref<const std::string&>() == name;
         });
}

int64_t names_in(const Json& schema) {
  int64_t n = 0;
  for (const char* key : {"properties", "required"}) {
    if (schema.contains(key)) n += static_cast<int64_t>(schema[key].size());
  }
  return n;
}

// Constants that a schema lists, those of its types; what its other keywords leave of them is not asked.
std::vector<Json> constants_of(const Json& schema) {
  std::vector<Json> values;
  const auto add = [&](const Json& value) {
    if (has_type_of(value, schema)) values.push_back(value);
  };
  if (schema.contains("const")) {
    add(schema["const"]);
  } else if (schema["enum"].is_array()) {
    for (const Json& value : schema["enum"]) add(value);
  }
  return values;
}

bool lists_constants(const Json& schema) {
  return schema.contains("const") || (schema.contains("enum") && schema["enum"].is_array());
}

std::vector<std::string> required_of(const Json& schema) {
  std::vector<std::string> names;
  if (!schema.contains("required") || !schema["required"].is_array()) return names;
  for (const Json& name : schema["required"]) {
    if (name.is_string()) names.push_back(name.get<std::string>());
  }
  return names;
}

bool holds_objects_only(const Json& schema) {
  return schema.is_object() && types_of(schema) == std::set<std::string>{"object"};
}

bool is_closed(const Json& schema) { return schema.value("additionalProperties", Json(true)) == Json(false); }

// The name that `other` demands and `schema` leaves unlisted, if it has one.
const std::string* unlisted(const Json& schema, const std::vector<std::string>& demanded) {
  const auto properties = schema.find("properties");
  if (properties == schema.end() || !properties->is_object() || schema.contains("patternProperties")) return nullptr;
  for (const std::string& name : demanded) {
    if (!properties->contains(name) && !requires_property(schema, name)) return &name;
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
    if (!lists_constants(one)) return false;
    const std::vector<Json> values = constants_of(one);
    const bool listed = lists_constants(other);
    const std::vector<Json> others = listed ? constants_of(other) : std::vector<Json>();
    return std::all_of(values.begin(), values.end(), [&](const Json& value) {
      builder_.step(static_cast<int64_t>(others.size()));
      if (!has_type_of(value, other)) return true;
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
    if (lists_constants(a) || lists_constants(b) || ++compared_texts_ > kMaxComparedTexts) return false;
    // At least all of them: string_set leaves out some where it counts far, and what grammars write of a format.
    const auto texts = [&](Json schema) {
      const bool counts = !schema.contains("pattern") && !schema.contains(kPatterns) && !schema.contains("format");
      if (!counts || (schema.contains("maxLength") && schema["maxLength"] > kFarthestCount)) schema.erase("maxLength");
      if (schema.contains("format") && schema["format"].is_string()) {
        if (!schema.contains(kPatterns)) schema[kPatterns] = Json::array();
        schema[kPatterns].push_back(widest_format_pattern(schema["format"].get<std::string>(), pointer));
        schema.erase("format");
      }
      schema.erase(kNotPatterns);  // of a format these are wider than what must not be
      return string_set(schema, pointer, Reading::kWide);
    };
    try {
      return texts(a).with(builder_, texts(b)).empty();
    } catch (const Error&) {  // too large or too ambiguous; where nothing is left to spend, the next step says so again
      return false;
    }
  }
  if (type != "object") return false;
  builder_.step(names_in(a) * names_in(a) / 16 + names_in(b) * names_in(b) / 16);
  const auto lacks_what_is_required = [](const Json& one, const Json& other) {
    return is_closed(one) && unlisted(one, required_of(other)) != nullptr;
  };
  if (lacks_what_is_required(a, b) || lacks_what_is_required(b, a)) return true;
  builder_.step(names_in(a) * names_in(b) / 16);
  std::vector<std::string> shared;
  for (const std::string& name : required_of(a)) {
    if (!requires_property(b, name) || !lists_property(a, name) || !lists_property(b, name)) continue;
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
  const bool lists = branch.contains("properties") && !branch.contains("patternProperties");
  if (!lists || !is_closed(branch)) return negated(branch, pointer, depth);
  Json open = branch;
  open.erase("additionalProperties");
  Json ways = Json::array({negated(open, pointer, depth)});
  const Json listed = known.is_object() ? known.value("properties", Json::object()) : Json::object();
  for (const auto& [name, of] : listed.items()) {
    if (!lists_property(branch, name) && of != Json(false)) {
      ways.push_back({{"type", "object"}, {"required", {name}}});
    }
  }
  return {{"anyOf", std::move(ways)}};
}

// The alternatives of `oneOf`. `rest` stands next to it and holds whichever is chosen. An alternative is left as it is
// where it contradicts the others anyway; else it gets what hurts each of the others that it might agree with.
Json SchemaCompiler::exclusive(const Json& branches, const Json& rest, const std::string& pointer, int32_t depth) {
  if (!branches.is_array() || branches.empty()) schema_error(pointer, "expected a list of schemas");
  const Deeper inside(merged_branches_);
  const size_t n = branches.size();
  if (n > kMaxAlternatives) {
    schema_error(pointer, std::to_string(n) + " alternatives; at most " + std::to_string(kMaxAlternatives) +
                              " are supported. Use \"anyOf\" where they contradict each other anyway");
  }
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
      const bool lists_all = holds_objects_only(flat[i]) && !flat[i].contains("additionalProperties") &&
                             !flat[i].contains("unevaluatedProperties");
      const std::string* name = lists_all ? unlisted(flat[i], demanded) : nullptr;
      if (name != nullptr) {
        all.push_back({{"properties", {{*name, false}}}});
        continue;
      }
      try {
        all.push_back(hurting(branches[j], flat[i], places[j], depth + 1));
        builder_.step(weight(all.back()));
        ways *= all.back().is_object() && all.back().contains("anyOf") ? all.back()["anyOf"].size() : 1;
        if (ways > kMaxWays) throw Unsupported("grammar", "there are too many ways");
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
