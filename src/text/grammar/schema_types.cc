// The types of a schema: strings, numbers, arrays, objects.

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "text/grammar/number_ranges.h"
#include "text/grammar/regex_grammar.h"
#include "text/grammar/schema_compiler.h"
#include "text/grammar/schema_merge.h"

namespace ashlar::grammar {
namespace {

// Dates are those of the calendar; the year 0000 is none.
const std::string kYear = "(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])";
const std::string kLeapYear = "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)";
const std::string kDate = "(?:" + kYear +
                          "-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|"
                          "02-(?:0[1-9]|1[0-9]|2[0-8]))|" +
                          kLeapYear + "-02-29)";
const std::string kTime =
    "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,6})?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])";
const std::string kEmailWord = "[A-Za-z0-9_+-]{1,32}";
const std::string kDomainLabel = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,30}[A-Za-z0-9])?";
const std::string kIpByte = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])";

const std::map<std::string, std::string>& formats() {
  static const std::map<std::string, std::string> known = {
      {"date", kDate},
      {"time", kTime},
      {"date-time", kDate + "T" + kTime},
      {"uuid", "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"},
      {"email", kEmailWord + "(?:\\." + kEmailWord + "){0,4}@" + kDomainLabel + "(?:\\." + kDomainLabel + "){1,4}"},
      {"ipv4", kIpByte + "(?:\\." + kIpByte + "){3}"},
  };
  return known;
}

struct Limit {
  double value = 0;
  bool exclusive = false;
};

// The tighter of minimum and exclusiveMinimum (a number, or as in draft 4 true beside minimum); `sign` 1 for lower
// bounds, -1 for upper ones.
std::optional<Limit> limit_of(const Json& schema, const char* key, const char* exclusive_key, int32_t sign,
                              const std::string& pointer) {
  std::optional<Limit> limit;
  if (schema.contains(key)) {
    if (!schema[key].is_number()) schema_error(pointer_to(pointer, key), "expected a number");
    limit = Limit{schema[key].get<double>(), false};
  }
  if (!schema.contains(exclusive_key)) return limit;
  const Json& exclusive = schema[exclusive_key];
  if (exclusive.is_boolean()) {
    if (limit) limit->exclusive = exclusive.get<bool>();
    return limit;
  }
  if (!exclusive.is_number()) schema_error(pointer_to(pointer, exclusive_key), "expected a number");
  const double value = exclusive.get<double>();
  if (!limit || sign * value >= sign * limit->value) limit = Limit{value, true};
  return limit;
}

// Above 2^53 a double cannot say which integer is meant.
constexpr double kExact = 9007199254740992.0;

int64_t whole_bound(const std::optional<Limit>& limit, int32_t sign, const std::string& pointer) {
  if (!limit) return -sign * kLargestInteger;
  if (std::abs(limit->value) > kExact) schema_error(pointer, "a bound is larger than 2^53, which is not supported");
  const double rounded = sign > 0 ? std::ceil(limit->value) : std::floor(limit->value);
  const auto whole = static_cast<int64_t>(rounded);
  return limit->exclusive && rounded == limit->value ? whole + sign : whole;
}

std::optional<NumberBound> number_bound(const std::optional<Limit>& limit, const std::string& pointer) {
  if (!limit) return std::nullopt;
  if (std::abs(limit->value) > static_cast<double>(kLargestNumberBound) || std::floor(limit->value) != limit->value) {
    schema_error(pointer, "a bound of a number that is no integer or above " + std::to_string(kLargestNumberBound) +
                              " is not supported");
  }
  return NumberBound{static_cast<int64_t>(limit->value), limit->exclusive};
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

Expr SchemaCompiler::pattern(const std::string& pattern, const std::string& pointer) {
  const std::string what = "the pattern at " + for_message(pointer);
  const CharWriter write = [this](const CodePointSet& set) { return values_.char_of(set); };
  const Expr inner = regex_expression(builder_, pattern, write, {what, true});
  const Expr quote = builder_.literal("\"");
  return builder_.sequence({quote, inner, quote});
}

Expr SchemaCompiler::formatted(const std::string& format, const std::string& pointer) {
  const auto known = formats().find(format);
  if (known == formats().end()) {
    std::string names;
    for (const auto& [name, regex] : formats()) names += (names.empty() ? "" : ", ") + name;
    schema_error(pointer_to(pointer, "format"),
                 "the format \"" + for_message(format) + "\" is not supported; " + names + " are");
  }
  return pattern("^(?:" + known->second + ")$", pointer);
}

Expr SchemaCompiler::string(const Json& schema, const std::string& pointer) {
  const bool sized = schema.contains("minLength") || schema.contains("maxLength");
  for (const char* key : {"pattern", "format"}) {
    if (!schema.contains(key)) continue;
    const std::string place = pointer_to(pointer, key);
    if (!schema[key].is_string()) schema_error(place, "expected a string");
    if (sized || (schema.contains("pattern") && schema.contains("format"))) {
      schema_error(place, std::string("\"") + key +
                              "\" does not go with minLength, maxLength or another pattern; put the length into the "
                              "pattern");
    }
    const auto text = schema[key].get<std::string>();
    return key == std::string_view("pattern") ? pattern(text, place) : formatted(text, pointer);
  }
  const int64_t min = count(schema, "minLength", 0, pointer);
  return values_.string(min, count(schema, "maxLength", -1, pointer));
}

Expr SchemaCompiler::integer(const Json& schema, const std::string& pointer) {
  if (schema.contains("multipleOf") && schema["multipleOf"] != 1) {
    schema_error(pointer_to(pointer, "multipleOf"), "\"multipleOf\" is not supported");
  }
  const int64_t low = whole_bound(limit_of(schema, "minimum", "exclusiveMinimum", 1, pointer), 1, pointer);
  const int64_t high = whole_bound(limit_of(schema, "maximum", "exclusiveMaximum", -1, pointer), -1, pointer);
  return integer_range(builder_, low, high);
}

Expr SchemaCompiler::number(const Json& schema, const std::string& pointer) {
  if (schema.contains("multipleOf")) {
    schema_error(pointer_to(pointer, "multipleOf"), "\"multipleOf\" is not supported");
  }
  const auto low = number_bound(limit_of(schema, "minimum", "exclusiveMinimum", 1, pointer), pointer);
  const auto high = number_bound(limit_of(schema, "maximum", "exclusiveMaximum", -1, pointer), pointer);
  return low || high ? number_range(builder_, low, high) : values_.number();
}

Expr SchemaCompiler::array(const Json& schema, const std::string& pointer) {
  if (schema.contains("uniqueItems") && schema["uniqueItems"] != false) {
    schema_error(pointer_to(pointer, "uniqueItems"), "\"uniqueItems\" is not supported");
  }
  const int64_t min = count(schema, "minItems", 0, pointer);
  int64_t max = count(schema, "maxItems", -1, pointer);
  // Before draft 2020, a list under `items` meant what is prefixItems now, and additionalItems what is items.
  const bool old = schema.contains("items") && schema["items"].is_array();
  const char* prefix_key = old ? "items" : "prefixItems";
  const char* rest_key = old ? "additionalItems" : "items";
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

// From the last place to the first: after i items, the list may end if there are enough of them, or go on.
Expr SchemaCompiler::array_of(const std::vector<Expr>& prefix, Expr rest, int64_t min, int64_t max) {
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
  }
  std::vector<Expr> ways = {tail};
  if (min == 0) ways.push_back(builder_.literal("]"));
  return builder_.sequence({builder_.literal("["), values_.space(), builder_.alternatives(std::move(ways))});
}

std::vector<SchemaCompiler::Property> SchemaCompiler::properties(const Json& schema, const std::string& pointer,
                                                                 const Json& additional) {
  std::vector<Property> list;
  std::map<std::string, size_t> by_name;
  if (schema.contains("properties")) {
    const std::string place = pointer_to(pointer, "properties");
    if (!schema["properties"].is_object()) schema_error(place, "expected an object");
    for (const auto& [name, of] : schema["properties"].items()) {
      by_name[name] = list.size();
      list.push_back({name, value(of, pointer_to(place, name)), false});
    }
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
    if (additional == Json(false)) schema_error(place, "\"" + for_message(name) + "\" is required but not allowed");
    by_name[name] = list.size();
    list.push_back({name, value(additional, pointer_to(pointer, "additionalProperties")), true});
  }
  return list;
}

void SchemaCompiler::check_property_count(const Json& schema, const std::vector<Property>& properties, bool open,
                                          const std::string& pointer) const {
  const auto required =
      std::count_if(properties.begin(), properties.end(), [](const Property& property) { return property.required; });
  if (count(schema, "minProperties", 0, pointer) > required) {
    schema_error(pointer_to(pointer, "minProperties"), "\"minProperties\" above what is required is not supported");
  }
  const int64_t most = count(schema, "maxProperties", -1, pointer);
  if (most >= 0 && (open || most < static_cast<int64_t>(properties.size()))) {
    schema_error(pointer_to(pointer, "maxProperties"), "\"maxProperties\" that would take effect is not supported");
  }
}

Expr SchemaCompiler::object(const Json& schema, const std::string& pointer) {
  const bool listed = schema.contains("properties");
  Json additional = !listed;
  for (const char* key : {"unevaluatedProperties", "additionalProperties"}) {
    if (!schema.contains(key)) continue;
    if (!schema[key].is_boolean() && !schema[key].is_object())
      schema_error(pointer_to(pointer, key), "expected a schema");
    if (additional != Json(false) || key[0] == 'a') additional = schema[key];
  }
  if (additional.is_object()) check_keywords(additional, pointer_to(pointer, "additionalProperties"));
  // A required name that is not listed may be anything unless the schema says more.
  const bool says = schema.contains("additionalProperties") || schema.contains("unevaluatedProperties");
  const std::vector<Property> list = properties(schema, pointer, says ? additional : Json(true));
  const bool open = additional != Json(false);
  check_property_count(schema, list, open, pointer);
  if (list.empty() && additional == Json(true)) return values_.object();
  Expr extra = builder_.never();
  if (open) {
    std::vector<std::string> names;
    for (const Property& property : list) names.push_back(property.name);
    const Expr key = names.empty() ? values_.string() : values_.string_except(std::move(names));
    const Expr of = value(additional, pointer_to(pointer, "additionalProperties"));
    extra = builder_.rule(pointer, builder_.sequence({key, builder_.literal(":"), values_.short_space(), of}));
  }
  return builder_.sequence({builder_.literal("{"), values_.space(), members(list, open, extra)});
}

// For each place i in the order: `next`, what may come when a member must follow, and `after`, what may come when one
// has just been written.
Expr SchemaCompiler::members(const std::vector<Property>& properties, bool open, Expr extra) {
  const Expr end = builder_.literal("}");
  const Expr spaced_end = builder_.sequence({values_.space(), end});
  const Rule after_extra = builder_.declare("members");
  const Expr more_extras = builder_.sequence({values_.comma(), extra, builder_.call(after_extra)});
  builder_.define(after_extra, builder_.alternatives({more_extras, spaced_end}));
  Expr next = open ? builder_.sequence({extra, builder_.call(after_extra)}) : builder_.never();
  Expr after = builder_.call(after_extra);
  bool needs_more = false;
  for (size_t i = properties.size(); i-- > 0;) {
    const Property& property = properties[i];
    const Expr member = builder_.sequence(
        {builder_.literal(json_text(property.name) + ":"), values_.short_space(), property.value, after});
    next = builder_.rule("members", property.required ? member : builder_.alternatives({member, next}));
    needs_more = needs_more || property.required;
    const Expr on = builder_.sequence({values_.comma(), next});
    after = builder_.rule("members", needs_more ? on : builder_.alternatives({on, spaced_end}));
  }
  return needs_more ? next : builder_.alternatives({next, end});
}

}  // namespace ashlar::grammar
