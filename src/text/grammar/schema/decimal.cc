// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/schema/decimal.h"

#include <algorithm>
#include <cstdlib>

#include "text/grammar/schema/json_values.h"

namespace ashlar::grammar {
namespace {

ByteSet digit(char c) {
  ByteSet set;
  set.set(static_cast<unsigned char>(c));
  return set;
}

int64_t power_of_ten(int32_t n) {
  int64_t power = 1;
  for (int32_t i = 0; i < n; ++i) power *= 10;
  return power;
}

}  // namespace

Decimal decimal_of(const Json& number) {
  Decimal out;
  bool negative = false;
  bool fraction = false;
  int32_t digits = 0;
  const std::string text = json_text(number);
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '-') {
      negative = true;
    } else if (c == '.') {
      fraction = true;
    } else if (c == 'e' || c == 'E') {
      out.places -= std::atoi(text.c_str() + at + 1);
      break;
    } else if (digits < 18 || c == '0') {  // a double has 17; an integer of more stays as large, at least
      if (digits >= 18) {
        out.places -= fraction ? 0 : 1;
        continue;
      }
      out.units = out.units * 10 + (c - '0');
      digits += out.units != 0 ? 1 : 0;
      out.places += fraction ? 1 : 0;
    } else {
      out.places -= fraction ? 0 : 1;
    }
  }
  if (out.units == 0) return {};
  while (out.units % 10 == 0 && out.places > 0) {
    out.units /= 10;
    --out.places;
  }
  while (out.places < 0 && out.units < power_of_ten(17)) {
    out.units *= 10;
    ++out.places;
  }
  if (negative) out.units = -out.units;
  return out;
}

int64_t floor_millionths(const Decimal& number, bool& exact) {
  exact = true;
  if (number.places <= kFractionDigits) return number.units * power_of_ten(kFractionDigits - number.places);
  int64_t value = number.units;
  for (int32_t i = kFractionDigits; i < number.places; ++i) {
    exact = exact && value % 10 == 0;
    value = value / 10 - (value % 10 < 0 ? 1 : 0);
    if (value == 0 || value == -1) {
      exact = exact && value == 0;
      break;
    }
  }
  return value;
}

std::optional<std::string> plain_spelling(const Decimal& number) {
  if (number.places < 0 || number.places > kFractionDigits) return std::nullopt;
  const std::string digits = std::to_string(std::abs(number.units));
  const auto places = static_cast<size_t>(number.places);
  const std::string padded = std::string(places + 1 - std::min(places + 1, digits.size()), '0') + digits;
  const size_t whole = padded.size() - places;
  std::string out = number.units < 0 ? "-" : "";
  out += padded.substr(0, whole);
  if (places > 0) out += '.' + padded.substr(whole);
  return out;
}

Expr same_number(Builder& builder, const std::string& spelling) {
  const Expr zeros = builder.repeat(builder.bytes(digit('0')), 0, -1);
  const bool whole = spelling.find('.') == std::string::npos;
  const Expr rest = whole ? builder.optional(builder.sequence({builder.literal("."), zeros})) : zeros;
  const Expr sign = spelling == "0" ? builder.optional(builder.literal("-")) : builder.empty();
  return builder.sequence({sign, builder.literal(spelling), rest});
}

// A state is the remainder of the digits read so far, and how many of them stand after the point. After the last
// place of the step only zeros keep a multiple one.
TextSet multiples_of(const Decimal& step) {
  const int64_t modulus = step.units;
  const auto whole = [](int64_t remainder) { return 2 + remainder; };
  const auto fraction = [&](int32_t place, int64_t remainder) { return 2 + modulus * (place + 1) + remainder; };
  const int64_t tail = fraction(step.places, modulus - 1) + 1;
  std::vector<TextSet::State> states(static_cast<size_t>(tail) + 1);
  const auto at = [&](int64_t id) -> TextSet::State& { return states[static_cast<size_t>(id)]; };
  const auto link = [&](int64_t from, char c, int64_t to) {
    at(from).next[static_cast<unsigned char>(c)] = static_cast<int32_t>(to);
  };
  const auto multiple = [&](int32_t place, int64_t remainder) {
    return remainder * (power_of_ten(step.places - place) % modulus) % modulus == 0;
  };
  link(0, '-', 1);
  for (char c = '0'; c <= '9'; ++c) {
    for (const int64_t start : {0, 1}) link(start, c, whole((c - '0') % modulus));
    for (int64_t r = 0; r < modulus; ++r) {
      const int64_t next = (r * 10 + (c - '0')) % modulus;
      link(whole(r), c, whole(next));
      for (int32_t place = 0; place < step.places; ++place) link(fraction(place, r), c, fraction(place + 1, next));
    }
  }
  for (int64_t r = 0; r < modulus; ++r) {
    link(whole(r), '.', fraction(0, r));
    at(whole(r)).accepting = multiple(0, r);
    for (int32_t place = 1; place <= step.places; ++place) at(fraction(place, r)).accepting = multiple(place, r);
  }
  link(fraction(step.places, 0), '0', tail);
  link(tail, '0', tail);
  at(tail).accepting = true;
  return TextSet(std::move(states));
}

}  // namespace ashlar::grammar
