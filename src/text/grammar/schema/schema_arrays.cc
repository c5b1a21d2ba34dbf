// SPDX-License-Identifier: Apache-2.0
// Arrays of a schema: places, counts, items that differ, items that must be there.

#include <algorithm>
#include <bit>
#include <optional>

#include "text/grammar/schema/schema_compiler.h"
#include "text/grammar/schema/schema_merge.h"

namespace ashlar::grammar {
namespace {

constexpr int64_t kPlacesOfARule = 64;  // so that a long list of places nests no deeper
constexpr size_t kMaxDifferent = 10;    // values of items that differ: each set of those already used is a state

}  // namespace

Expr SchemaCompiler::array(const Json& schema, const std::string& pointer) {
  const auto shut = std::count_if(excluded_values(schema).begin(), excluded_values(schema).end(),
                                  [](const Json& value) { return value.is_array() && value.empty(); });
  const int64_t min = std::max<int64_t>(count(schema, "minItems", 0, pointer), shut);
  int64_t max = count(schema, "maxItems", -1, pointer);
  // Before draft 2020, a list under `items` meant what is prefixItems now, and additionalItems what is items.
  const bool old = schema.contains("items") && schema["items"].is_array();
  const char* prefix_key = old ? "items" : "prefixItems";
  const char* rest_key = old ? "additionalItems" : "items";
  const bool unique = schema.contains("uniqueItems") && schema["uniqueItems"] != Json(false);
  if (unique && (max < 0 || max > 1)) {
    if (schema.contains(prefix_key) || schema.contains("contains") || !schema.contains(rest_key)) {
      schema_error(pointer_to(pointer, "uniqueItems"),
                   "\"uniqueItems\" is supported only where \"items\" is an enum, constants or a boolean");
    }
    return different(schema[rest_key], min, max, pointer);
  }
  if (schema.contains("contains")) {
    if (schema.contains(prefix_key)) {
      schema_error(pointer_to(pointer, "contains"), "\"contains\" with prefixItems is not supported");
    }
    return containing(schema, min, max, pointer);
  }
  std::vector<Expr> prefix;
  if (schema.contains(prefix_key)) {
    const std::string place = pointer_to(pointer, prefix_key);
    if (!schema[prefix_key].is_array()) schema_error(place, "expected a list of schemas");
    for (size_t i = 0; i < schema[prefix_key].size(); ++i) {
      prefix.push_back(builder_.rule(place, value(schema[prefix_key][i], pointer_to(place, std::to_string(i)))));
    }
  }
  const auto fixed = static_cast<int64_t>(prefix.size());
  if (!schema.contains(rest_key)) {
    if (fixed > 0 && min <= fixed) max = max < 0 ? fixed : std::min(max, fixed);
    if (fixed == 0 && min == 0 && max < 0) return values_.array();
    return array_of(prefix, values_.value(), min, max);
  }
  const std::string place = pointer_to(pointer, rest_key);
  return array_of(prefix, builder_.rule(place, value(schema[rest_key], place)), min, max);
}

// The values that a schema allows, if it lists them.
std::optional<std::vector<Json>> SchemaCompiler::listed_values(const Json& schema, const std::string& pointer) {
  const Json flat = flattened(schema, pointer, 0);
  if (!flat.is_object()) return std::nullopt;
  std::vector<Json> values;
  const auto add = [&values](const Json& value) {
    const bool known =
        std::any_of(values.begin(), values.end(), [&](const Json& other) { return equal(value, other); });
    if (!known) values.push_back(value);
  };
  if (flat.contains("anyOf") || flat.contains(kExclusive)) {
    const char* key = flat.contains("anyOf") ? "anyOf" : kExclusive;
    if (has_more_than(flat, key) || !flat[key].is_array()) return std::nullopt;
    for (const Json& branch : flat[key]) {
      const auto more = listed_values(branch, pointer_to(pointer, key));
      if (!more) return std::nullopt;
      for (const Json& value : *more) add(value);
    }
    return values;
  }
  if (flat.contains("enum") || flat.contains("const")) {
    for (const Json& value : allowed_constants(flat, pointer)) add(value);
    return values;
  }
  if (has_more_than(flat, "type") || !flat.contains("type")) return std::nullopt;
  if (flat["type"] == "boolean") return std::vector<Json>{false, true};
  if (flat["type"] == "null") return std::vector<Json>{nullptr};
  return std::nullopt;
}

// Every value at most once, in any order. A state is the set of those that are written.
Expr SchemaCompiler::different(const Json& items, int64_t min, int64_t max, const std::string& pointer) {
  const std::string place = pointer_to(pointer, "uniqueItems");
  const auto values = listed_values(items, pointer_to(pointer, "items"));
  if (!values || values->size() > kMaxDifferent) {
    schema_error(place,
                 "\"uniqueItems\" is supported only where \"items\" is an enum, constants or a boolean, of at "
                 "most " +
                     std::to_string(kMaxDifferent) + " values");
  }
  const size_t n = values->size();
  const Expr end = builder_.literal("]");
  const Expr spaced_end = builder_.sequence({values_.space(), end});
  std::vector<Expr> spelled;
  for (const Json& one : *values) spelled.push_back(values_.constant(one));
  std::vector<Expr> after(size_t{1} << n);
  const auto next = [&](size_t used) {
    std::vector<Expr> ways;
    for (size_t i = 0; i < n && (max < 0 || std::popcount(used) < max); ++i) {
      const size_t with = used | (size_t{1} << i);
      if (with != used) ways.push_back(builder_.sequence({spelled[i], after[with]}));
    }
    return builder_.alternatives(std::move(ways));
  };
  for (size_t used = after.size() - 1; used > 0; --used) {
    const Expr on = builder_.sequence({values_.comma(), next(used)});
    const bool may_end = std::popcount(used) >= min;
    after[used] = builder_.rule(place, may_end ? builder_.alternatives({on, spaced_end}) : on);
  }
  std::vector<Expr> ways = {next(0)};
  if (min == 0) ways.push_back(end);
  return builder_.sequence({builder_.literal("["), values_.space(), builder_.alternatives(std::move(ways))});
}

// Some items satisfy a second schema. After i items, j of them such; neither counts on where it makes no difference.
Expr SchemaCompiler::containing(const Json& schema, int64_t min, int64_t max, const std::string& pointer) {
  const std::string place = pointer_to(pointer, "contains");
  const Json items = schema.value("items", Json(true));
  const Json& wanted = schema["contains"];
  const int64_t least = count(schema, "minContains", 1, pointer);
  const int64_t most = count(schema, "maxContains", -1, pointer);
  if (most >= 0 && most < least) return builder_.never();
  const Json others = most < 0 ? items : Json{{"allOf", Json::array({items, negated(wanted, place, 0)})}};
  const Expr such = builder_.rule(place, value(Json{{"allOf", Json::array({items, wanted})}}, place));
  const Expr other = builder_.rule(place, value(others, place));
  const int64_t counted_items = max < 0 ? min : max;
  const int64_t counted_such = most < 0 ? least : most;
  const Expr end = builder_.literal("]");
  const Expr spaced_end = builder_.sequence({values_.space(), end});
  std::vector<std::vector<Rule>> after;
  builder_.step((counted_items + 1) * (counted_such + 1));
  for (int64_t i = 0; i <= counted_items; ++i) {
    after.emplace_back();
    for (int64_t j = 0; j <= counted_such; ++j) after.back().push_back(builder_.declare(place));
  }
  const auto next = [&](int64_t i, int64_t j) {
    if (max >= 0 && i == max) return builder_.never();
    const int64_t next_i = std::min(i + 1, counted_items);
    std::vector<Expr> ways = {builder_.sequence({other, builder_.call(after[next_i][j])})};
    if (j < counted_such) ways.push_back(builder_.sequence({such, builder_.call(after[next_i][j + 1])}));
    return builder_.alternatives(std::move(ways));
  };
  for (int64_t i = 0; i <= counted_items; ++i) {
    for (int64_t j = 0; j <= counted_such; ++j) {
      const Expr on = builder_.sequence({values_.comma(), next(i, j)});
      builder_.define(after[i][j], i >= min && j >= least ? builder_.alternatives({on, spaced_end}) : on);
    }
  }
  std::vector<Expr> ways = {next(0, 0)};
  if (min == 0 && least == 0) ways.push_back(end);
  return builder_.sequence({builder_.literal("["), values_.space(), builder_.alternatives(std::move(ways))});
}

// From the last place to the first: after i items, the list may end if there are enough of them, or go on.
Expr SchemaCompiler::array_of(const std::vector<Expr>& prefix, Expr rest, int64_t min, int64_t max) {
  if (max >= 0 && min > max) return builder_.never();
  const auto fixed = static_cast<int64_t>(prefix.size());
  const Expr end = builder_.sequence({values_.space(), builder_.literal("]")});
  const Expr next = builder_.sequence({values_.comma(), rest});
  const auto more = [&](int64_t have) {  // after `have` items, all further ones of the rest
    const int64_t least = std::max<int64_t>(min - have, 0);
    if (max >= 0 && max < have) return builder_.never();
    return builder_.sequence({builder_.repeat(next, least, max < 0 ? -1 : max - have), end});
  };
  Expr tail = fixed == 0 ? builder_.sequence({rest, more(1)}) : more(fixed);
  if (fixed == 0 && max == 0) tail = builder_.never();
  for (int64_t i = fixed - 1; i >= 0; --i) {
    if (max >= 0 && i >= max) {
      tail = i == 0 ? builder_.never() : end;
      continue;
    }
    const Expr item = i == 0 ? prefix[i] : builder_.sequence({values_.comma(), prefix[i]});
    tail = builder_.sequence({item, tail});
    if (i > 0 && i >= min) tail = builder_.alternatives({tail, end});
    if (i > 0 && i % kPlacesOfARule == 0) tail = builder_.rule({}, tail);
  }
  std::vector<Expr> ways = {tail};
  if (min == 0) ways.push_back(builder_.literal("]"));
  return builder_.sequence({builder_.literal("["), values_.space(), builder_.alternatives(std::move(ways))});
}

}  // namespace ashlar::grammar
