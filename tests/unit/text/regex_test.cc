// SPDX-License-Identifier: Apache-2.0
// The translation from Oniguruma; that the matches are right is shown by the golden variants and sweeps.

#include "text/tokenizer/pattern/regex.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "text/tokenizer/pattern/regex_dialect.h"

namespace ashlar::test {
namespace {

using testing::ElementsAre;
using text::ByteRange;
using text::Regex;
using text::translate_oniguruma;

std::vector<ByteRange> matches(const std::string& pattern, const std::string& text) {
  std::vector<ByteRange> found;
  Regex::from_oniguruma(pattern, "test").find_all(text, found);
  return found;
}

TEST(RegexDialect, Translations) {
  EXPECT_EQ(translate_oniguruma(R"(\s+[^\S\r])", "test"), R"([\p{White_Space}]+[^\P{White_Space}\r])");
  EXPECT_EQ(translate_oniguruma("a{,3}", "test"), "a{0,3}");
  EXPECT_EQ(translate_oniguruma("xa{1,3}+", "test"), "x(?:a{1,3})+");
  EXPECT_EQ(translate_oniguruma("x(ab){2}+", "test"), "x(?:(ab){2})+");
  EXPECT_EQ(translate_oniguruma("x[ab]{2}+", "test"), "x(?:[ab]{2})+");
  EXPECT_EQ(translate_oniguruma("a{", "test"), "a\\{");
  EXPECT_EQ(translate_oniguruma("(?m:.)", "test"), "(?s:.)");
  EXPECT_EQ(translate_oniguruma("(?i)a", "test"), "(?i)a");
  EXPECT_EQ(translate_oniguruma(R"(\h\v\u00e9)", "test"), R"([0-9A-Fa-f]\x0B\x{00e9})");
  EXPECT_EQ(translate_oniguruma(R"(\p{Greek}\P{Lt})", "test"), R"(\p{sc:Greek}\P{Lt})");
}

TEST(RegexDialect, WhatCannotBeTranslatedIsAnError) {
  for (const char* pattern :
       {"[a&&b]",  "[[a]b]", "[a",     "(a",    "a)",    "\\", "\\q",   "\\p{",  "\\p{^L}", "\\p",
        "(?<n>a)", "(?~a)",  "a(?i)b", "a{3}?", "[\\W]", "[]", "\\u12", "\\x8F", "(*UTF)",  "\\p{NoSuchScript}",
        "a**b(",   "[z-a]",  "\\C"}) {
    EXPECT_THROW(Regex::from_oniguruma(pattern, "test"), Error) << pattern;
  }
}

/// Oniguruma folds one character to two and would find one match; no pattern of a published tokenizer depends on it.
TEST(RegexDialect, KnownDifference) { EXPECT_THAT(matches("(?i:ss)", "ß"), ElementsAre()); }

TEST(Regex, FindAll) {
  EXPECT_THAT(matches("a+", "aabaaa"), ElementsAre(ByteRange{0, 2}, ByteRange{3, 6}));
  EXPECT_THAT(matches("a+", ""), ElementsAre());
  EXPECT_THAT(matches("x*", "axé"), ElementsAre(ByteRange{0, 0}, ByteRange{1, 2}, ByteRange{4, 4}));
  EXPECT_THAT(matches("(?<=a)b", "abb"), ElementsAre(ByteRange{1, 2}));
  EXPECT_THAT(matches("^.", "a\nb"), ElementsAre(ByteRange{0, 1}, ByteRange{2, 3}));
  EXPECT_THAT(matches("(?m:a.)", "a\n"), ElementsAre(ByteRange{0, 2}));
}

TEST(Regex, LiteralsAreNotPatterns) {
  const std::string text = "a.b*[c](d)|e\\Q^$ {2}#-é\n";
  std::vector<ByteRange> found;
  Regex::from_literal(text, "test").find_all("x" + text + text, found);
  EXPECT_THAT(found, ElementsAre(ByteRange{1, 1 + text.size()}, ByteRange{1 + text.size(), 1 + 2 * text.size()}));
}

/// Such an error goes to the sender of the text.
TEST(Regex, ErrorsOfMatchingDoNotSayWhereTheFileLies) {
  const Regex regex = Regex::from_oniguruma("(x+x+)+[yz]", "/srv/models/tokenizer.json: pre_tokenizer.pattern");
  std::vector<ByteRange> found;
  try {
    regex.find_all(std::string(64, 'x') + "w", found);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("regular expression '(x+x+)+[yz]'"),
                                             testing::Not(testing::HasSubstr("/srv"))));
  }
}

}  // namespace
}  // namespace ashlar::test
