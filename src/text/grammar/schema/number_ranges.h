// SPDX-License-Identifier: Apache-2.0
#pragma once
// Decimal numbers between bounds, as expressions over their digits.

#include <cstdint>
#include <optional>

#include "text/grammar/builder.h"

namespace ashlar::grammar {

/// Most digits of a whole number, and so the largest magnitude: a number must end some time.
inline constexpr int32_t kIntegerDigits = 18;
inline constexpr int64_t kLargestInteger = 999'999'999'999'999'999;
/// Largest magnitude of a bound of a number with a fraction; beyond it a double is the same for several numbers.
inline constexpr int64_t kLargestNumberBound = 1'000'000'000;

/// low <= n <= high, both within kLargestInteger; "-0" is left out.
Expr integer_range(Builder& builder, int64_t low, int64_t high);

struct NumberBound {
  int64_t value = 0;
  bool exclusive = false;
};

/// Numbers between whole bounds, without exponent; at most 6 digits of fraction. An absent bound is open.
Expr number_range(Builder& builder, std::optional<NumberBound> low, std::optional<NumberBound> high);

/// low <= n <= high in millionths, both within kLargestInteger; without exponent, at most 6 digits of fraction.
Expr decimal_range(Builder& builder, int64_t low, int64_t high);

/// -?int frac? exp?, every part bounded.
Expr any_number(Builder& builder);

}  // namespace ashlar::grammar
