// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/schema/number_ranges.h"

#include <algorithm>
#include <string>
#include <vector>

namespace ashlar::grammar {
namespace {

ByteSet digits(char low, char high) {
  ByteSet set;
  for (char c = low; c <= high; ++c) set.set(static_cast<unsigned char>(c));
  return set;
}

Expr any_digits(Builder& builder, int64_t min, int64_t max) {
  return builder.repeat(builder.bytes(digits('0', '9')), min, max);
}

// Digit strings of one length, low <= high.
Expr same_length(Builder& builder, const std::string& low, const std::string& high) {
  size_t same = 0;
  while (same < low.size() && low[same] == high[same]) ++same;
  const Expr prefix = builder.literal(low.substr(0, same));
  if (same == low.size()) return prefix;
  const auto left = static_cast<int64_t>(low.size() - same - 1);
  const std::string low_rest = low.substr(same + 1);
  const std::string high_rest = high.substr(same + 1);
  char first = low[same];
  char last = high[same];
  std::vector<Expr> ways;
  if (low_rest.find_first_not_of('0') != std::string::npos) {
    ways.push_back(builder.sequence(
        {builder.literal(std::string(1, first)), same_length(builder, low_rest, std::string(low_rest.size(), '9'))}));
    ++first;
  }
  if (high_rest.find_first_not_of('9') != std::string::npos) {
    ways.push_back(builder.sequence(
        {builder.literal(std::string(1, last)), same_length(builder, std::string(high_rest.size(), '0'), high_rest)}));
    --last;
  }
  if (first <= last) {
    ways.push_back(builder.sequence({builder.bytes(digits(first, last)), any_digits(builder, left, left)}));
  }
  return builder.sequence({prefix, builder.alternatives(std::move(ways))});
}

// 0 <= low; nothing if high < low.
Expr natural_range(Builder& builder, int64_t low, int64_t high) {
  std::vector<Expr> ways;
  int64_t smallest = 0;  // of this many digits
  int64_t largest = 9;
  for (int32_t n = 1; n <= kIntegerDigits; ++n) {
    const int64_t from = std::max(low, smallest);
    const int64_t to = std::min(high, largest);
    if (from <= to) ways.push_back(same_length(builder, std::to_string(from), std::to_string(to)));
    if (n == kIntegerDigits) break;  // the next would not fit
    smallest = largest + 1;
    largest = largest * 10 + 9;
  }
  return builder.alternatives(std::move(ways));
}

Expr fraction(Builder& builder) { return builder.sequence({builder.literal("."), any_digits(builder, 1, 6)}); }

// Magnitudes between the bounds; high absent: open.
Expr magnitudes(Builder& builder, NumberBound low, std::optional<NumberBound> high) {
  const int64_t from = low.exclusive ? low.value + 1 : low.value;
  const int64_t to = high ? high->value - 1 : kLargestInteger / 1000;
  std::vector<Expr> ways;
  ways.push_back(builder.sequence({natural_range(builder, from, to), builder.optional(fraction(builder))}));
  if (low.exclusive && low.value <= to) {
    const Expr nonzero = builder.sequence(
        {builder.repeat(builder.literal("0"), 0, 3), builder.bytes(digits('1', '9')), any_digits(builder, 0, 2)});
    ways.push_back(builder.sequence({builder.literal(std::to_string(low.value) + "."), nonzero}));
  }
  if (high && !high->exclusive && high->value >= from) {
    ways.push_back(
        builder.sequence({builder.literal(std::to_string(high->value)), builder.optional(builder.literal(".0"))}));
  }
  return builder.alternatives(std::move(ways));
}

}  // namespace

Expr integer_range(Builder& builder, int64_t low, int64_t high) {
  std::vector<Expr> ways;
  if (high >= 0) ways.push_back(natural_range(builder, std::max<int64_t>(low, 0), high));
  if (low < 0) {
    ways.push_back(builder.sequence({builder.literal("-"), natural_range(builder, std::max<int64_t>(-high, 1), -low)}));
  }
  return builder.alternatives(std::move(ways));
}

Expr number_range(Builder& builder, std::optional<NumberBound> low, std::optional<NumberBound> high) {
  std::vector<Expr> ways;
  if (!high || high->value >= 0) {
    const bool from_zero = !low || low->value < 0;
    ways.push_back(magnitudes(builder, from_zero ? NumberBound{} : *low, high));
  }
  if (!low || low->value < 0) {
    const bool to_zero = !high || high->value > 0;
    const NumberBound nearest = to_zero ? NumberBound{0, true} : NumberBound{-high->value, high->exclusive};
    const NumberBound least = nearest.value == 0 ? NumberBound{0, true} : nearest;
    std::optional<NumberBound> farthest;
    if (low) farthest = NumberBound{-low->value, low->exclusive};
    ways.push_back(builder.sequence({builder.literal("-"), magnitudes(builder, least, farthest)}));
  }
  return builder.alternatives(std::move(ways));
}

namespace {

// A point and digits worth low .. high millionths, both below a million; or nothing if that is worth enough.
Expr fraction_between(Builder& builder, int64_t low, int64_t high) {
  std::vector<Expr> ways;
  if (low == 0) ways.push_back(builder.empty());
  int64_t worth = 1'000'000;  // of the last digit
  for (size_t n = 1; n <= 6; ++n) {
    worth /= 10;
    const auto written = [n](int64_t value) {
      const std::string text = std::to_string(value);
      return std::string(n - std::min(n, text.size()), '0') + text;
    };
    const int64_t from = (low + worth - 1) / worth;
    const int64_t to = high / worth;
    if (from > to) continue;
    ways.push_back(builder.sequence({builder.literal("."), same_length(builder, written(from), written(to))}));
  }
  return builder.alternatives(std::move(ways));
}

Expr decimal_magnitudes(Builder& builder, int64_t low, int64_t high) {
  constexpr int64_t kOne = 1'000'000;
  if (low > high) return builder.never();
  const int64_t first = low / kOne;
  const int64_t last = high / kOne;
  const auto whole = [&](int64_t n) { return builder.literal(std::to_string(n)); };
  if (first == last) return builder.sequence({whole(first), fraction_between(builder, low % kOne, high % kOne)});
  return builder.alternatives(
      {builder.sequence({whole(first), fraction_between(builder, low % kOne, kOne - 1)}),
       builder.sequence({natural_range(builder, first + 1, last - 1), builder.optional(fraction(builder))}),
       builder.sequence({whole(last), fraction_between(builder, 0, high % kOne)})});
}

}  // namespace

Expr decimal_range(Builder& builder, int64_t low, int64_t high) {
  std::vector<Expr> ways;
  if (high >= 0) ways.push_back(decimal_magnitudes(builder, std::max<int64_t>(low, 0), high));
  if (low < 0) {
    ways.push_back(
        builder.sequence({builder.literal("-"), decimal_magnitudes(builder, std::max<int64_t>(-high, 1), -low)}));
  }
  return builder.alternatives(std::move(ways));
}

Expr any_number(Builder& builder) {
  ByteSet exponent;
  exponent.set('e');
  exponent.set('E');
  ByteSet sign;
  sign.set('+');
  sign.set('-');
  const Expr fraction = builder.sequence({builder.literal("."), any_digits(builder, 1, 17)});
  const Expr power =
      builder.sequence({builder.bytes(exponent), builder.optional(builder.bytes(sign)), any_digits(builder, 1, 2)});
  return builder.sequence({builder.optional(builder.literal("-")), natural_range(builder, 0, kLargestInteger),
                           builder.optional(fraction), builder.optional(power)});
}

}  // namespace ashlar::grammar
