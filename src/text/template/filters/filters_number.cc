// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "text/template/filters/filters.h"
#include "text/template/parse/number_parse.h"
#include "text/template/run/attribute_getter.h"
#include "text/template/values/operators.h"

namespace ashlar::tmpl {
namespace {

Value truncated(double value) {
  if (!(std::fabs(value) < 9.2e18)) fail("cannot convert the float to a 64-bit integer");
  return Value(static_cast<std::int64_t>(value));
}

Value to_int(Interpreter&, const Value& input, const Arguments& arguments) {
  const Bound bound("int", arguments, {"default", "base"});
  const Value otherwise = bound.has(0) ? bound.at(0) : Value(std::int64_t{0});
  if (input.is_undefined()) fail_undefined(input);
  if (input.is_integral()) return Value(input.as_int());
  if (input.is(Kind::kFloat)) return std::isnan(input.as_float()) ? otherwise : truncated(input.as_float());
  if (!input.is(Kind::kString)) return otherwise;
  std::int64_t whole = 0;
  if (parse_int(input.as_string(), static_cast<int>(bound.integer(1, 10)), whole)) return Value(whole);
  double value = 0;
  if (!parse_float(input.as_string(), value) || !std::isfinite(value)) return otherwise;
  return truncated(value);
}

Value to_float(Interpreter&, const Value& input, const Arguments& arguments) {
  const Bound bound("float", arguments, {"default"});
  if (input.is_undefined()) fail_undefined(input);
  if (input.is_number()) return Value(input.as_number());
  double value = 0;
  if (input.is(Kind::kString) && parse_float(input.as_string(), value)) return Value(value);
  return bound.has(0) ? bound.at(0) : Value(0.0);
}

Value absolute(Interpreter&, const Value& input, const Arguments& arguments) {
  const Bound bound("abs", arguments, {});
  if (input.is_undefined()) fail_undefined(input);
  if (!input.is_number()) fail("bad operand type for abs(): '" + input.type_name() + "'");
  if (input.is(Kind::kFloat)) return Value(std::fabs(input.as_float()));
  return input.as_int() < 0 ? negate(input) : Value(input.as_int());
}

/// round(value, precision): to the nearest decimal of the exact binary value, ties to even, as C prints it.
double round_float(double value, std::int64_t precision) {
  if (!std::isfinite(value) || precision > 400) return value;
  if (precision < -400) return std::copysign(0.0, value);
  if (precision < 0) {
    const double scale = std::pow(10.0, static_cast<double>(-precision));
    return std::isinf(scale) ? std::copysign(0.0, value) : std::nearbyint(value / scale) * scale;
  }
  std::array<char, 800> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%.*f", static_cast<int>(precision), value);
  return std::strtod(buffer.data(), nullptr);
}

/// An integer to a multiple of 10^digits, ties to even.
Value round_int(std::int64_t value, std::int64_t digits) {
  if (digits > 18) return Value(std::int64_t{0});
  std::int64_t scale = 1;
  for (std::int64_t i = 0; i < digits; ++i) scale *= 10;
  const std::int64_t rest = value % scale;
  std::int64_t quotient = value / scale;
  const std::int64_t size = rest < 0 ? -rest : rest;
  if (size > scale - size || (size == scale - size && quotient % 2 != 0)) quotient += value < 0 ? -1 : 1;
  std::int64_t out = 0;
  if (__builtin_mul_overflow(quotient, scale, &out)) fail("integer overflow in round");
  return Value(out);
}

Value round_filter(Interpreter&, const Value& input, const Arguments& arguments) {
  const Bound bound("round", arguments, {"precision", "method"});
  const std::int64_t precision = bound.integer(0, 0);
  const std::string method = bound.string(1, "common");
  if (method != "common" && method != "ceil" && method != "floor") fail("round: method must be common, ceil or floor");
  if (input.is_undefined()) fail_undefined(input);
  if (!input.is_number()) fail("type " + input.type_name() + " cannot be rounded");
  if (method == "common") {
    if (input.is(Kind::kFloat)) return Value(round_float(input.as_float(), precision));
    return precision < 0 ? round_int(input.as_int(), -precision) : Value(input.as_int());
  }
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const double scaled = input.as_number() * scale;
  if (!std::isfinite(scaled) || scale == 0) fail("round: the result is out of range");
  return Value((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
}

Value sum(Interpreter& in, const Value& input, const Arguments& arguments) {
  const Bound bound("sum", arguments, {"attribute", "start"});
  const AttributeGetter getter(in.budget(), bound.has(0) ? bound.at(0) : Value());
  Value total = bound.has(1) ? bound.at(1) : Value(std::int64_t{0});
  if (total.is(Kind::kString)) fail("sum() cannot sum strings");
  for (const Value& item : iterate(in.budget(), input))
    total = arithmetic(in.budget(), BinaryOp::kAdd, total, getter.get(in.budget(), item));
  return total;
}

Value extreme(Interpreter& in, const Value& input, const Arguments& arguments, bool largest) {
  const Bound bound(largest ? "max" : "min", arguments, {"case_sensitive", "attribute"});
  Budget& budget = in.budget();
  const AttributeGetter getter(budget, bound.has(1) ? bound.at(1) : Value());
  const std::vector<Value> items = iterate(budget, input);
  if (items.empty()) return Value::undefined("no aggregated item, sequence was empty");
  std::size_t best = 0;
  Value best_key;
  for (std::size_t i = 0; i < items.size(); ++i) {
    Value key = sort_key(budget, getter.get(budget, items[i]), bound.flag(0));
    if (i > 0 && !(largest ? less(budget, best_key, key) : less(budget, key, best_key))) continue;
    best = i;
    best_key = std::move(key);
  }
  return items[best];
}

Value min(Interpreter& in, const Value& input, const Arguments& a) { return extreme(in, input, a, false); }
Value max(Interpreter& in, const Value& input, const Arguments& a) { return extreme(in, input, a, true); }

constexpr FilterEntry kNumberFilters[] = {
    {"int", to_int}, {"float", to_float}, {"abs", absolute}, {"round", round_filter},
    {"sum", sum},    {"min", min},        {"max", max}};

}  // namespace

FilterFn find_number_filter(std::string_view name) { return find_in(kNumberFilters, name); }

}  // namespace ashlar::tmpl
