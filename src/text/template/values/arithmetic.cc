// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include "text/template/filters/format.h"
#include "text/template/values/escape.h"
#include "text/template/values/operators.h"
#include "text/template/values/print.h"
#include "text/template/values/text_ops.h"

namespace ashlar::tmpl {
namespace {

constexpr const char* kSigns[] = {"+", "-", "*", "/", "//", "%", "** or pow()"};

[[noreturn]] void fail_types(BinaryOp op, const Value& a, const Value& b) {
  fail(std::string("unsupported operand type(s) for ") + kSigns[static_cast<int>(op)] + ": '" + a.type_name() +
       "' and '" + b.type_name() + "'");
}

[[noreturn]] void fail_overflow() { fail("integer overflow: the result does not fit 64 bits"); }

std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  if (b == 0) fail("integer division or modulo by zero");
  if (a == std::numeric_limits<std::int64_t>::min() && b == -1) fail_overflow();
  const std::int64_t quotient = a / b;
  return quotient - ((a % b != 0 && ((a < 0) != (b < 0))) ? 1 : 0);
}

std::int64_t floor_mod(std::int64_t a, std::int64_t b) {
  if (b == 0) fail("integer division or modulo by zero");
  if (b == -1) return 0;
  const std::int64_t rest = a % b;
  return rest != 0 && ((rest < 0) != (b < 0)) ? rest + b : rest;
}

double float_mod(double a, double b) {
  if (b == 0) fail("float modulo");
  const double rest = std::fmod(a, b);
  if (rest == 0) return std::copysign(0.0, b);
  return (rest < 0) != (b < 0) ? rest + b : rest;
}

double float_floor_div(double a, double b) {
  if (b == 0) fail("float floor division by zero");
  const double rest = std::fmod(a, b);
  double quotient = (a - rest) / b;
  if (rest != 0 && ((b < 0) != (rest < 0))) quotient -= 1.0;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double floored = std::floor(quotient);
  return quotient - floored > 0.5 ? floored + 1.0 : floored;
}

double float_pow(double a, double b) {
  if (a == 0 && b < 0) fail("0.0 cannot be raised to a negative power");
  if (a < 0 && std::isfinite(a) && std::isfinite(b) && b != std::floor(b))
    fail("a negative number cannot be raised to a fractional power");
  const double power = std::pow(a, b);
  if (std::isinf(power) && std::isfinite(a) && std::isfinite(b)) fail("numerical result out of range");
  return power;
}

std::int64_t int_pow(std::int64_t base, std::int64_t exponent) {
  std::int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) fail_overflow();
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) fail_overflow();
  }
  return result;
}

Value int_arithmetic(BinaryOp op, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  switch (op) {
    case BinaryOp::kAdd:
      if (__builtin_add_overflow(a, b, &result)) fail_overflow();
      return Value(result);
    case BinaryOp::kSub:
      if (__builtin_sub_overflow(a, b, &result)) fail_overflow();
      return Value(result);
    case BinaryOp::kMul:
      if (__builtin_mul_overflow(a, b, &result)) fail_overflow();
      return Value(result);
    case BinaryOp::kDiv:
      if (b == 0) fail("division by zero");
      return Value(static_cast<double>(static_cast<long double>(a) / static_cast<long double>(b)));
    case BinaryOp::kFloorDiv:
      return Value(floor_div(a, b));
    case BinaryOp::kMod:
      return Value(floor_mod(a, b));
    case BinaryOp::kPow:
      if (b < 0) return Value(float_pow(static_cast<double>(a), static_cast<double>(b)));
      return Value(int_pow(a, b));
  }
  return Value();
}

Value float_arithmetic(BinaryOp op, double a, double b) {
  switch (op) {
    case BinaryOp::kAdd:
      return Value(a + b);
    case BinaryOp::kSub:
      return Value(a - b);
    case BinaryOp::kMul:
      return Value(a * b);
    case BinaryOp::kDiv:
      if (b == 0) fail("float division by zero");
      return Value(a / b);
    case BinaryOp::kFloorDiv:
      return Value(float_floor_div(a, b));
    case BinaryOp::kMod:
      return Value(float_mod(a, b));
    case BinaryOp::kPow:
      return Value(float_pow(a, b));
  }
  return Value();
}

Value add_strings(Budget& budget, const Value& a, const Value& b) {
  budget.string_size(a.as_string().size() + b.as_string().size());
  const bool markup = a.as_text().markup || b.as_text().markup;
  TextBuilder out(budget);
  for (const Value* side : {&a, &b}) {
    const Text& text = side->as_text();
    if (markup && !text.markup) {
      out.put(escape_html(text.bytes), text.origins.greatest());
    } else {
      out.put(text);
    }
  }
  return make_string(budget, out.take(), markup);
}

Value add_sequences(Budget& budget, const Value& a, const Value& b) {
  budget.work((a.as_items().size() + b.as_items().size()) * sizeof(Value));
  std::vector<Value> items = a.as_items();
  items.insert(items.end(), b.as_items().begin(), b.as_items().end());
  return a.is(Kind::kList) ? make_list(budget, std::move(items)) : make_tuple(budget, std::move(items));
}

/// `text` over and over, `total` bytes.
Value repeat_text(Budget& budget, const Text& text, std::uint64_t total) {
  if (text.origins.mixed()) {
    TextBuilder out(budget);
    while (out.size() < total) out.put(text);
    return make_string(budget, out.take(), text.markup);
  }
  std::string out = total > 0 ? text.bytes : "";
  out.reserve(total);
  while (out.size() < total) out.append(out, 0, total - out.size());  // doubles
  return make_string(budget, std::move(out), text.origins, text.markup);
}

Value repeat(Budget& budget, const Value& value, std::int64_t count) {
  const auto times = static_cast<std::uint64_t>(count > 0 ? count : 0);
  const std::uint64_t size =
      value.is(Kind::kString) ? value.as_string().size() : value.as_items().size() * sizeof(Value);
  std::uint64_t total = 0;
  if (__builtin_mul_overflow(size, times, &total)) total = std::numeric_limits<std::uint64_t>::max() / 2;
  if (value.is(Kind::kString)) {
    budget.string_size(total);
    return repeat_text(budget, value.as_text(), total);
  }
  budget.work(total);
  std::vector<Value> items;
  for (std::uint64_t i = 0; total > 0 && i < times; ++i)
    items.insert(items.end(), value.as_items().begin(), value.as_items().end());
  return value.is(Kind::kList) ? make_list(budget, std::move(items)) : make_tuple(budget, std::move(items));
}

bool repeatable(const Value& value) {
  return value.is(Kind::kString) || value.is(Kind::kList) || value.is(Kind::kTuple);
}

}  // namespace

Value arithmetic(Budget& budget, BinaryOp op, const Value& a, const Value& b) {
  if (a.is(Kind::kString) && op == BinaryOp::kMod) return format_percent(budget, a, b);
  if (a.is_undefined()) fail_undefined(a);
  if (b.is_undefined()) fail_undefined(b);
  if (a.is_integral() && b.is_integral()) return int_arithmetic(op, a.as_int(), b.as_int());
  if (a.is_number() && b.is_number()) return float_arithmetic(op, a.as_number(), b.as_number());
  if (op == BinaryOp::kAdd && a.kind() == b.kind()) {
    if (a.is(Kind::kString)) return add_strings(budget, a, b);
    if (a.is(Kind::kList) || a.is(Kind::kTuple)) return add_sequences(budget, a, b);
  }
  if (op == BinaryOp::kAdd && (a.is(Kind::kString) || b.is(Kind::kString))) {
    const Value left = text_of(budget, a), right = text_of(budget, b);
    if (left.kind() == right.kind()) return add_strings(budget, left, right);
  }
  if (op == BinaryOp::kMul) {
    if (repeatable(a) && b.is_integral()) return repeat(budget, a, b.as_int());
    if (repeatable(b) && a.is_integral()) return repeat(budget, b, a.as_int());
  }
  fail_types(op, a, b);
}

Value negate(const Value& value) {
  if (value.is_undefined()) fail_undefined(value);
  if (value.is(Kind::kFloat)) return Value(-value.as_float());
  if (!value.is_integral()) fail("bad operand type for unary -: '" + value.type_name() + "'");
  return int_arithmetic(BinaryOp::kSub, 0, value.as_int());
}

Value plus(const Value& value) {
  if (value.is_undefined()) fail_undefined(value);
  if (value.is(Kind::kFloat)) return value;
  if (!value.is_integral()) fail("bad operand type for unary +: '" + value.type_name() + "'");
  return Value(value.as_int());
}

}  // namespace ashlar::tmpl
