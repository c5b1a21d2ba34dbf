// SPDX-License-Identifier: Apache-2.0
// Numbers of a schema: bounds, multiples, and values left out.

#include <algorithm>
#include <cmath>
#include <optional>

#include "text/grammar/schema/decimal.h"
#include "text/grammar/schema/number_ranges.h"
#include "text/grammar/schema/schema_compiler.h"
#include "text/grammar/schema/schema_merge.h"
#include "text/grammar/text_set.h"

namespace ashlar::grammar {
namespace {

struct Limit {
  double value = 0;
  bool exclusive = false;
};

// Above 2^53 a double cannot say which integer is meant.
constexpr double kExact = 9007199254740992.0;

// An integer that a double would round is moved to one that is certainly beyond kExact.
double bound_of(const Json& number) {
  const auto value = number.get<double>();
  if (!number.is_number_integer() || std::abs(value) != kExact) return value;
  const bool rounded = number.is_number_unsigned() ? number.get<uint64_t>() != static_cast<uint64_t>(kExact)
                                                   : number.get<int64_t>() != static_cast<int64_t>(value);
  return rounded ? value * 2 : value;
}

// The tighter of minimum and exclusiveMinimum (a number, or as in draft 4 true next to minimum); `sign` 1 for lower
// bounds, -1 for upper ones.
std::optional<Limit> limit_of(const Json& schema, const char* key, const char* exclusive_key, int32_t sign,
                              const std::string& pointer) {
  std::optional<Limit> limit;
  if (schema.contains(key)) {
    if (!schema[key].is_number()) schema_error(pointer_to(pointer, key), "expected a number");
    limit = Limit{bound_of(schema[key]), false};
  }
  if (!schema.contains(exclusive_key)) return limit;
  const Json& exclusive = schema[exclusive_key];
  if (exclusive.is_boolean()) {
    if (limit) limit->exclusive = exclusive.get<bool>();
    return limit;
  }
  if (!exclusive.is_number()) schema_error(pointer_to(pointer, exclusive_key), "expected a number");
  const double value = bound_of(exclusive);
  if (!limit || sign * value >= sign * limit->value) limit = Limit{value, true};
  return limit;
}

int64_t whole_bound(const std::optional<Limit>& limit, int32_t sign, const std::string& pointer) {
  if (!limit) return -sign * kLargestInteger;
  if (std::abs(limit->value) > kExact) schema_error(pointer, "a bound is larger than 2^53, which is not supported");
  const double rounded = sign > 0 ? std::ceil(limit->value) : std::floor(limit->value);
  const auto whole = static_cast<int64_t>(rounded);
  return limit->exclusive && rounded == limit->value ? whole + sign : whole;
}

bool is_whole(const std::optional<Limit>& limit) { return !limit || std::floor(limit->value) == limit->value; }

void check_size(const std::optional<Limit>& limit, const std::string& pointer) {
  if (!limit || std::abs(limit->value) <= static_cast<double>(kLargestNumberBound)) return;
  schema_error(pointer, "a bound of a number above " + std::to_string(kLargestNumberBound) + " is not supported");
}

std::optional<NumberBound> number_bound(const std::optional<Limit>& limit) {
  if (!limit) return std::nullopt;
  return NumberBound{static_cast<int64_t>(limit->value), limit->exclusive};
}

// In millionths, the last place that is written; a bound between two of them is as good as the nearest inside.
int64_t millionths(const std::optional<Limit>& limit, int32_t sign) {
  if (!limit) return -sign * kLargestInteger;
  bool exact = true;
  const int64_t below = floor_millionths(decimal_of(limit->value), exact);
  if (!exact) return sign > 0 ? below + 1 : below;
  return limit->exclusive ? below + sign : below;
}

std::vector<Json> listed(const Json& schema, const char* key) {
  if (!schema.contains(key)) return {};
  const Json& value = schema[key];
  return value.is_array() ? std::vector<Json>(value.begin(), value.end()) : std::vector<Json>{value};
}

}  // namespace

// Multiples and values left out, which take the digits one by one.
Expr SchemaCompiler::numbers_of(const std::function<Expr(Builder&)>& range, const Json& schema,
                                const std::string& pointer) {
  const std::string place = pointer_to(pointer, "multipleOf");
  TextSet set = TextSet::of(builder_, range);
  const auto multiples = [&](const Json& of) {
    if (!of.is_number() || of.get<double>() <= 0) schema_error(place, "expected a number above 0");
    const Decimal step = decimal_of(of);
    if (step.places > kFractionDigits || step.units > static_cast<int64_t>(TextSet::kMaxStates) / (step.places + 3)) {
      schema_error(place, "\"multipleOf\": " + json_text(of) +
                              " is not supported: it has too many digits to be compared digit by digit");
    }
    return multiples_of(step).minimal(builder_);
  };
  for (const char* key : {"multipleOf", kMultiples}) {
    for (const Json& of : listed(schema, key)) set = set.with(builder_, multiples(of));
  }
  for (const Json& of : listed(schema, kNotMultiples)) set = set.without(builder_, multiples(of));
  for (const Json& value : excluded_values(schema)) {
    if (!value.is_number()) continue;
    builder_.step(100);
    if (const std::optional<std::string> text = plain_spelling(decimal_of(value))) {
      set = set.without(builder_, TextSet::of(builder_, [&](Builder& builder) { return same_number(builder, *text); }));
    }
  }
  return set.write(builder_);
}

bool SchemaCompiler::wants_digits(const Json& schema) const {
  const Json& excluded = excluded_values(schema);
  return schema.contains("multipleOf") || schema.contains(kMultiples) || schema.contains(kNotMultiples) ||
         std::any_of(excluded.begin(), excluded.end(), [](const Json& value) { return value.is_number(); });
}

Expr SchemaCompiler::integer(const Json& schema, const std::string& pointer) {
  const int64_t low = whole_bound(limit_of(schema, "minimum", "exclusiveMinimum", 1, pointer), 1, pointer);
  const int64_t high = whole_bound(limit_of(schema, "maximum", "exclusiveMaximum", -1, pointer), -1, pointer);
  if (!wants_digits(schema)) return integer_range(builder_, low, high);
  return numbers_of([&](Builder& builder) { return integer_range(builder, low, high); }, schema, pointer);
}

Expr SchemaCompiler::number(const Json& schema, const std::string& pointer) {
  std::optional<Limit> low = limit_of(schema, "minimum", "exclusiveMinimum", 1, pointer);
  std::optional<Limit> high = limit_of(schema, "maximum", "exclusiveMaximum", -1, pointer);
  check_size(low, pointer);
  check_size(high, pointer);
  const bool digits = wants_digits(schema);
  if (!digits && !low && !high) return values_.number();
  if (digits) {  // within the bounds every such number is a double of its own
    if (!low) low = Limit{-static_cast<double>(kLargestNumberBound), false};
    if (!high) high = Limit{static_cast<double>(kLargestNumberBound), false};
  }
  const auto range = [&](Builder& builder) {
    if (is_whole(low) && is_whole(high)) return number_range(builder, number_bound(low), number_bound(high));
    return decimal_range(builder, millionths(low, 1), millionths(high, -1));
  };
  return digits ? numbers_of(range, schema, pointer) : range(builder_);
}

}  // namespace ashlar::grammar
