// SPDX-License-Identifier: Apache-2.0
#pragma once
// Numbers of JSON as exact decimals: units / 10^places.

#include <cstdint>
#include <optional>
#include <string>

#include "io/json.h"
#include "text/grammar/builder.h"
#include "text/grammar/text_set.h"

namespace ashlar::grammar {

/// Most digits after the point of a number with bounds or other rules.
inline constexpr int32_t kFractionDigits = 6;

struct Decimal {
  int64_t units = 0;   ///< without zeros at its end unless places is 0
  int32_t places = 0;  ///< below 0: that many zeros follow
};

/// As the number is written shortest.
Decimal decimal_of(const Json& number);
/// The number in millionths, rounded down; `exact` says whether nothing was lost. It is at most 10^12.
int64_t floor_millionths(const Decimal& number, bool& exact);
/// Digits, and a point if it needs one; nothing if it has more than 18 digits or kFractionDigits after the point.
std::optional<std::string> plain_spelling(const Decimal& number);

/// Every spelling without exponent of the number that is spelled so.
Expr same_number(Builder& builder, const std::string& spelling);
/// Decimal texts whose number is a multiple of `step`, with any number of digits. step.units > 0, step.places at most
/// kFractionDigits; it takes units * (places + 2) + 3 states.
TextSet multiples_of(const Decimal& step);

}  // namespace ashlar::grammar
