// SPDX-License-Identifier: Apache-2.0
#include "text/template/parse/number_parse.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <limits>
#include <string>

#include "text/template/run/budget.h"
#include "text/template/values/text_ops.h"

namespace ashlar::tmpl {
namespace {

bool is_alnum(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

/// Removes underscores, each of which must stand between two digits; false otherwise.
bool drop_underscores(std::string& text) {
  for (std::size_t i = 0; i < text.size(); ++i)
    if (text[i] == '_' && (i == 0 || i + 1 == text.size() || !is_alnum(text[i - 1]) || !is_alnum(text[i + 1])))
      return false;
  text.erase(std::remove(text.begin(), text.end(), '_'), text.end());
  return true;
}

/// 0x, 0o and 0b in front of the digits, as far as the base allows them; base 0 reads the base from them.
int drop_prefix(std::string& digits, int base) {
  if (digits.size() > 2 && digits[0] == '0') {
    const char mark = static_cast<char>(std::tolower(static_cast<unsigned char>(digits[1])));
    const int named = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
    if (named != 0 && (base == named || base == 0)) {
      digits.erase(0, digits[2] == '_' ? 3 : 2);
      return named;
    }
  }
  return base == 0 ? 10 : base;
}

}  // namespace

bool parse_int(std::string_view text, int base, std::int64_t& out) {
  std::string digits(strip(text, nullptr, true, true));
  const bool negative = !digits.empty() && digits[0] == '-';
  if (negative || (!digits.empty() && digits[0] == '+')) digits.erase(0, 1);
  base = drop_prefix(digits, base);
  if (base < 2 || base > 36 || !drop_underscores(digits) || digits.empty() || !is_alnum(digits[0])) return false;
  if (negative) digits.insert(digits.begin(), '-');
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), out, base);
  if (parsed.ptr != digits.data() + digits.size()) return false;
  if (parsed.ec == std::errc::result_out_of_range) fail("integer overflow: the number does not fit 64 bits");
  return parsed.ec == std::errc{};
}

bool parse_float(std::string_view text, double& out) {
  std::string number(strip(text, nullptr, true, true));
  if (!drop_underscores(number)) return false;
  const bool negative = !number.empty() && number[0] == '-';
  if (negative || (!number.empty() && number[0] == '+')) number.erase(0, 1);
  if (number.empty() || number[0] == '-' || number.find('(') != std::string::npos) return false;
  const auto parsed = std::from_chars(number.data(), number.data() + number.size(), out);
  if (parsed.ptr != number.data() + number.size()) return false;
  // Out of range: from_chars leaves the value alone; the exponent's sign says which side it fell off.
  if (parsed.ec == std::errc::result_out_of_range) {
    const std::size_t e = number.find_first_of("eE");
    const bool tiny =
        number.compare(0, 2, "0.") == 0 || (e != std::string::npos && number.find('-', e) != std::string::npos);
    out = tiny ? 0.0 : std::numeric_limits<double>::infinity();
  } else if (parsed.ec != std::errc{}) {
    return false;
  }
  if (negative) out = -out;
  return true;
}

}  // namespace ashlar::tmpl
