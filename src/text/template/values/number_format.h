// SPDX-License-Identifier: Apache-2.0
#pragma once
// Digits of numbers for both kinds of string formatting, and the padding around them.

#include <cstdint>
#include <string>
#include <string_view>

#include "text/template/values/value.h"

namespace ashlar::tmpl {

/// Flags, width and precision of one field, whichever syntax they came from.
struct FieldStyle {
  std::string fill = " ";
  Origin origin = Origin::kTemplate;  ///< of the text that asked for all this, thus of fill, sign and digits
  char align = '\0';                  ///< '<' '>' '^' '='; none: by type
  char sign = '-';                    ///< '-' '+' ' '
  bool signed_field = false;          ///< the sign was given
  bool alternate = false;             ///< '#'
  std::int64_t width = 0;
  char grouping = '\0';  ///< ',' or '_'
  std::int64_t precision = -1;
  char type = '\0';
};

/// A non-negative decimal number at `at`, which moves past it; -1 when there is none. Fails when it is absurd.
std::int64_t read_number(std::string_view text, std::size_t& at);

/// `digits` (no sign) padded to the width, with sign and prefix before what '=' padding goes between.
SourcedText pad_number(Budget& budget, const FieldStyle& style, bool negative, const std::string& prefix,
                       const std::string& digits);
SourcedText pad_text(Budget& budget, const FieldStyle& style, SourcedText text, char align);

/// The character with the code `value`, for the type c: its origin is unknown, so it counts as what users say.
/// Fails outside Unicode.
SourcedText code_character(std::int64_t value);
/// Absolute value in base 2, 8, 10 or 16.
std::string int_digits(std::uint64_t value, int base, bool upper);
/// Absolute value as C's %e, %f or %g does; type one of eEfFgG%.
std::string float_digits(double value, char type, std::int64_t precision, bool alternate);
/// With separators between groups of digits of the integer part.
std::string group_digits(const std::string& digits, char separator, int size);

}  // namespace ashlar::tmpl
