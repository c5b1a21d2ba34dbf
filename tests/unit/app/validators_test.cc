// SPDX-License-Identifier: Apache-2.0
#include "app/command_line/validators.h"

#include <gtest/gtest.h>

namespace ashlar {
namespace {

// What a validator makes of a text: the text, or the error.
std::string of(const CLI::Validator& validator, std::string text) {
  const std::string why = validator(text);
  return why.empty() ? text : why;
}

TEST(Validators, WholeNumbers) {
  EXPECT_EQ(of(whole(0, 10), "10"), "10");
  EXPECT_EQ(of(whole(0, 255), "0xff"), "255");
  EXPECT_EQ(of(whole(0, 100), "010"), "10");  // not octal
  EXPECT_EQ(of(whole(-5, 5), "-5"), "-5");
  EXPECT_EQ(of(whole(0, 5), "-0"), "0");
  EXPECT_EQ(of(whole(0, UINT64_MAX), "18446744073709551615"), "18446744073709551615");
  for (const char* bad : {"", "1.5", "1 ", " 1", "1e1", "x", "-1", "11", "nan", "--1", "18446744073709551616"}) {
    EXPECT_NE(of(whole(0, 10), bad), bad) << bad;
  }
  EXPECT_EQ(of(whole(2, 64), "16.5"), "is 16.5; expected a whole number from 2 to 64");
  EXPECT_EQ(of(whole(-5, 5), "-6"), "is -6; expected a whole number from -5 to 5");
  EXPECT_EQ(of(whole(2, 64), ""), "is empty; expected a whole number from 2 to 64");
}

TEST(Validators, Numbers) {
  for (const char* good : {"0", "1", "0.5", "0.001"}) EXPECT_EQ(of(number(0, 1), good), good);
  for (const char* half : {".5", "5e-1", "0.50"}) EXPECT_EQ(of(number(0, 1), half), "0.5");
  for (const char* bad : {"nan", "-nan", "NAN", "inf", "-inf", "1.1", "-0.1", "", "x", "1x", " 1"}) {
    EXPECT_NE(of(number(0, 1), bad), bad) << bad;
  }
  EXPECT_EQ(of(number(0, 1e6), "nan"), "is nan; expected a number from 0 to 1000000");
  EXPECT_EQ(of(number_above(0, 1), "0"), "is 0; expected a number above 0 and up to 1");
}

TEST(Validators, SizesAndWords) {
  EXPECT_EQ(of(size(1 << 20, 1 << 30), "512M"), "512M");
  EXPECT_EQ(of(size(1 << 20, 1 << 30), "5Q"), "is 5Q; expected a size from 1.00 MiB to 1.00 GiB, such as 512M or 1.5G");
  for (const char* bad : {"2G", "1K", "nanM", "-1M", ""}) EXPECT_NE(of(size(1 << 20, 1 << 30), bad), bad) << bad;
  EXPECT_EQ(of(one_of({"cosine", "linear", "sqrt"}), "foo"), "is foo; expected cosine, linear or sqrt");
  EXPECT_EQ(of(one_of({"a"}), std::string("a\1", 2)).find('\1'), std::string::npos);
}

}  // namespace
}  // namespace ashlar
