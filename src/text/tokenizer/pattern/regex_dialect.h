// SPDX-License-Identifier: Apache-2.0
#pragma once
// From Oniguruma's Ruby syntax, which tokenizer.json is written in, to PCRE2 (UTF and UCP on).

#include <string>
#include <string_view>

namespace ashlar::text {

/// Members of a class: the word characters of UTS #18, which have the joiners besides letters, marks and digits. The
/// reference means these where it uses a regular expression of its own instead of one of the file.
inline constexpr std::string_view kUnicodeWord = R"(\p{Alphabetic}\p{L}\p{M}\p{Nd}\p{Pc}\u200C\u200D)";

/// A PCRE2 pattern (to be compiled with UTF, UCP, MULTILINE and newline LF) that matches what `pattern` matches in
/// Oniguruma 6.9. The differences it bridges:
///  - \s is White_Space (PCRE2 adds U+180E), \w holds marks and all connectors, \h is a hexadecimal digit, \v is
///  U+000B;
///  - ^ and $ match at every line, the option m lets . match newlines, {,n} means {0,n}, X{n,m}+ repeats (is not
///  possessive);
///  - \p{Han} is the script, not the script extensions;
///  - \p{L}, other categories and the common scripts know Unicode 16, whatever the installed PCRE2 was built with
///    (unicode_additions.h); only a negated one inside a class, as in [\P{L}a], is what PCRE2 makes of it.
/// What it cannot express (class intersections and nested classes, \p{^..}, absent groups, ...) throws
/// Error("tokenizer", ...) that starts with `where`.
std::string translate_oniguruma(std::string_view pattern, std::string_view where);

}  // namespace ashlar::text
