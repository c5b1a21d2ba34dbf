// SPDX-License-Identifier: Apache-2.0
// Objects of a schema: properties in their order, names by patterns, counts.

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "text/grammar/schema/schema_compiler.h"
#include "text/grammar/schema/schema_merge.h"
#include "text/grammar/text_set.h"

namespace ashlar::grammar {
namespace {

constexpr size_t kMaxPatterns = 6;  // of names; each set of those that match is a case of its own

Json all_of(const std::vector<Json>& schemas) {
  if (schemas.size() == 1) return schemas[0];
  return {{"allOf", schemas}};
}

}  // namespace

int64_t SchemaCompiler::count(const Json& schema, const char* key, int64_t fallback, const std::string& pointer) const {
  if (!schema.contains(key)) return fallback;
  const Json& value = schema[key];
  const double number = value.is_number() ? value.get<double>() : -1;
  if (number < 0 || number != std::floor(number)) {
    schema_error(pointer_to(pointer, key), "expected a whole number from 0");
  }
  if (number > builder_.limits().repeat) {
    schema_error(pointer_to(pointer, key),
                 "it is above " + std::to_string(builder_.limits().repeat) + ", the limit of repetitions");
  }
  return static_cast<int64_t>(number);
}

std::vector<SchemaCompiler::NamePattern> SchemaCompiler::name_patterns(const Json& schema, const std::string& pointer) {
  std::vector<NamePattern> patterns;
  if (!schema.contains("patternProperties")) return patterns;
  const std::string place = pointer_to(pointer, "patternProperties");
  if (!schema["patternProperties"].is_object()) schema_error(place, "expected an object");
  for (const auto& [pattern, of] : schema["patternProperties"].items()) {
    const std::string at = pointer_to(place, pattern);
    patterns.push_back({pattern_set(pattern, at), pattern_set(pattern, at, Reading::kWide), of, at});
  }
  if (patterns.size() > kMaxPatterns) {
    schema_error(place, "\"patternProperties\" has more than " + std::to_string(kMaxPatterns) + " patterns");
  }
  return patterns;
}

std::vector<SchemaCompiler::Property> SchemaCompiler::properties(const Json& schema, const std::string& pointer,
                                                                 const Json& additional, const Names& names) {
  std::vector<Property> list;
  std::map<std::string, size_t> by_name;
  const auto add = [&](const std::string& name, std::optional<Json> of, const std::string& place, bool required) {
    std::vector<Json> all;
    bool additionally = !of;
    if (of) all.push_back(std::move(*of));
    for (const NamePattern& pattern : names.patterns) {
      if (pattern.possible.contains(name)) all.push_back(pattern.value);
      if (pattern.sure.contains(name)) additionally = false;
    }
    if (all.empty() || (additionally && additional != Json(true))) all.push_back(additional);
    if (names.all && !names.all->contains(name)) all = {false};
    by_name[name] = list.size();
    list.push_back({name, value(all_of(all), place), required});
  };
  if (schema.contains("properties")) {
    const std::string place = pointer_to(pointer, "properties");
    if (!schema["properties"].is_object()) schema_error(place, "expected an object");
    for (const auto& [name, of] : schema["properties"].items()) add(name, of, pointer_to(place, name), false);
  }
  if (!schema.contains("required")) return list;
  const std::string place = pointer_to(pointer, "required");
  if (!schema["required"].is_array()) schema_error(place, "expected a list of names");
  for (const Json& entry : schema["required"]) {
    if (!entry.is_string()) schema_error(place, "expected a list of names");
    const auto name = entry.get<std::string>();
    const auto at = by_name.find(name);
    if (at != by_name.end()) {
      list[at->second].required = true;
      continue;
    }
    const bool matched = std::any_of(names.patterns.begin(), names.patterns.end(),
                                     [&](const NamePattern& pattern) { return pattern.sure.contains(name); });
    if (additional == Json(false) && !matched && merged_branches_ == 0) {
      schema_error(place, "\"" + for_message(name) + "\" is required but not allowed");
    }
    add(name, std::nullopt, pointer_to(pointer, "additionalProperties"), true);
  }
  return list;
}

Expr SchemaCompiler::object(const Json& schema, const std::string& pointer) {
  const bool listed = schema.contains("properties") || schema.contains("patternProperties");
  Json additional = !listed;
  for (const char* key : {"unevaluatedProperties", "additionalProperties"}) {
    if (!schema.contains(key)) continue;
    if (!schema[key].is_boolean() && !schema[key].is_object())
      schema_error(pointer_to(pointer, key), "expected a schema");
    if (additional != Json(false) || key[0] == 'a') additional = schema[key];
  }
  if (additional.is_object()) check_keywords(additional, pointer_to(pointer, "additionalProperties"));
  Names names = {name_patterns(schema, pointer), std::nullopt};
  if (schema.contains("propertyNames")) {
    const std::string place = pointer_to(pointer, "propertyNames");
    const Json flat = flattened(schema["propertyNames"], place, 0);
    if (flat.is_object() && (flat.contains("anyOf") || flat.contains(kExclusive))) {
      schema_error(place, "\"propertyNames\" of alternatives is not supported");
    }
    const bool strings = !flat.is_object() || !flat.contains("type") || has_type("", flat["type"]);
    if (flat == Json(false) || !strings) {
      names.all = TextSet({TextSet::State()});
    } else if (flat.is_object() && has_more_than(flat, "type")) {
      names.all = string_set(flat, place);
    }
  }
  // A required name that is not listed may be anything unless the schema says more.
  const bool says = schema.contains("additionalProperties") || schema.contains("unevaluatedProperties");
  const std::vector<Property> list = properties(schema, pointer, says ? additional : Json(true), names);
  const Expr extra = extra_member(list, additional, names, pointer);
  const bool open = additional != Json(false) || !names.patterns.empty();
  const auto shut = std::count_if(excluded_values(schema).begin(), excluded_values(schema).end(),
                                  [](const Json& value) { return value.is_object() && value.empty(); });
  const int64_t min = std::max<int64_t>(count(schema, "minProperties", 0, pointer), shut);
  const int64_t max = count(schema, "maxProperties", -1, pointer);
  const bool any = !names.all && names.patterns.empty() && additional == Json(true);
  if (list.empty() && any && min == 0 && max < 0) return values_.object();
  if (min > static_cast<int64_t>(list.size()) + (open ? 1 : 0)) {
    schema_error(pointer_to(pointer, "minProperties"),
                 "\"minProperties\" is above the number of listed properties and one more, which is not supported: "
                 "two members without a listed name cannot be kept from being the same");
  }
  return builder_.sequence({builder_.literal("{"), values_.space(), members(list, open, extra, min, max)});
}

// A member whose name is not listed: for each set of patterns, the names that match just these.
Expr SchemaCompiler::extra_member(const std::vector<Property>& list, const Json& additional, const Names& names,
                                  const std::string& pointer) {
  std::vector<std::string> listed;
  for (const Property& property : list) listed.push_back(property.name);
  const std::string place = pointer_to(pointer, "additionalProperties");
  const auto member = [&](Expr key, const Json& of, const std::string& where) {
    return builder_.rule(where,
                         builder_.sequence({key, builder_.literal(":"), values_.short_space(), value(of, where)}));
  };
  if (names.patterns.empty() && !names.all) {
    if (additional == Json(false)) return builder_.never();
    return member(listed.empty() ? values_.string() : values_.string_except(std::move(listed)), additional, place);
  }
  TextSet free = names.all ? *names.all : TextSet::any_string(builder_);
  if (!listed.empty()) {
    free = free.without(builder_, TextSet::of(builder_, [&](Builder& builder) { return builder.strings(listed); }));
  }
  std::vector<Expr> ways;
  for (size_t chosen = 0; chosen < size_t{1} << names.patterns.size(); ++chosen) {
    if (chosen == 0 && additional == Json(false)) continue;
    TextSet set = free;
    std::vector<Json> of;
    for (size_t i = 0; i < names.patterns.size(); ++i) {
      const bool matches = (chosen >> i & 1) != 0;
      set = matches ? set.with(builder_, names.patterns[i].sure) : set.without(builder_, names.patterns[i].possible);
      if (matches) of.push_back(names.patterns[i].value);
    }
    if (set.empty()) continue;
    if (of.empty()) of.push_back(additional);
    const std::string where = chosen == 0 ? place : pointer_to(pointer, "patternProperties");
    ways.push_back(member(quoted(set.write_escaped(builder_)), all_of(of), where));
  }
  return builder_.alternatives(std::move(ways));
}

// For each place i in the order and c members written, as far as counting matters: `next`, what may come when a member
// must follow, and `after`, what may come when one has just been written. Members without a listed name may be the
// same, so that all of them count once towards `min`.
Expr SchemaCompiler::members(const std::vector<Property>& properties, bool open, Expr extra, int64_t min, int64_t max) {
  const Expr end = builder_.literal("}");
  const Expr spaced_end = builder_.sequence({values_.space(), end});
  const Expr more = builder_.sequence({values_.comma(), extra});
  const auto places = static_cast<int64_t>(properties.size());
  const int64_t counted = max < 0 ? min : max;
  const auto lacks = [&](int64_t c) { return std::max<int64_t>(min - c, 0); };
  const auto room = [&](int64_t c) { return max < 0 || c < max; };
  const auto extras = [&](int64_t c) {  // one after the other until the end
    if (!open || !room(c) || lacks(c) > 1) return builder_.never();
    if (max >= 0) return builder_.sequence({extra, builder_.repeat(more, 0, max - c - 1), spaced_end});
    const Rule after_extra = builder_.declare("members");
    builder_.define(after_extra,
                    builder_.alternatives({builder_.sequence({more, builder_.call(after_extra)}), spaced_end}));
    return builder_.sequence({extra, builder_.call(after_extra)});
  };
  const auto on = [&](Expr next) { return builder_.sequence({values_.comma(), next}); };
  std::vector<Expr> next;
  std::vector<Expr> after;
  for (int64_t c = 0; c <= std::min(places, counted); ++c) {
    next.push_back(builder_.rule("members", extras(c)));
    after.push_back(builder_.rule(
        "members", lacks(c) > 0 ? on(next.back()) : builder_.alternatives({on(next.back()), spaced_end})));
  }
  bool needs_more = false;
  for (int64_t i = places; i-- > 0;) {
    const Property& property = properties[static_cast<size_t>(i)];
    needs_more = needs_more || property.required;
    std::vector<Expr> next_here;
    std::vector<Expr> after_here;
    for (int64_t c = 0; c <= std::min(i, counted); ++c) {
      const auto at = static_cast<size_t>(c);
      std::vector<Expr> ways;
      if (room(c)) {
        ways.push_back(builder_.sequence({builder_.literal(json_text(property.name) + ":"), values_.short_space(),
                                          property.value, after[static_cast<size_t>(std::min(c + 1, counted))]}));
      }
      if (!property.required) ways.push_back(next[at]);
      next_here.push_back(builder_.rule("members", builder_.alternatives(std::move(ways))));
      const bool may_end = !needs_more && lacks(c) == 0;
      after_here.push_back(builder_.rule(
          "members", may_end ? builder_.alternatives({on(next_here.back()), spaced_end}) : on(next_here.back())));
    }
    next = std::move(next_here);
    after = std::move(after_here);
  }
  return needs_more || min > 0 ? next[0] : builder_.alternatives({next[0], end});
}

}  // namespace ashlar::grammar
