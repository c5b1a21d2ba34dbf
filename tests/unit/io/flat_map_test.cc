// SPDX-License-Identifier: Apache-2.0
#include "io/flat_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace ashlar {
namespace {

using ::testing::HasSubstr;

std::string map_problem(const std::string& text) {
  try {
    for (const FlatEntry& entry : parse_flat_map(text, "f.yaml")) number_of(entry, "f.yaml");
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

TEST(FlatMap, ReadsBothSpellings) {
  const auto entries = parse_flat_map(
      "\xEF\xBB\xBF# of a model\n---\nalgorithm: 'Low#Confidence'  # quoted\r\nthreshold = 0.85 # less\n\n"
      "block-size:32\nname = \"a b\"\nlast: -1e-3",
      "f");
  ASSERT_EQ(entries.size(), 5U);
  EXPECT_EQ(entries[0].key, "algorithm");
  EXPECT_EQ(entries[0].value, "Low#Confidence");
  EXPECT_EQ(entries[0].line, 3);
  EXPECT_EQ(number_of(entries[1], "f"), 0.85);
  EXPECT_EQ(entries[2].key, "block-size");
  EXPECT_EQ(number_of(entries[2], "f"), 32);
  EXPECT_EQ(entries[3].value, "a b");
  EXPECT_EQ(number_of(entries[4], "f"), -1e-3);
  EXPECT_EQ(place_of(entries[4], "f"), "f:8: ");
  EXPECT_TRUE(parse_flat_map("", "f").empty());
}

TEST(FlatMap, NamesFileLineFoundAndExpected) {
  EXPECT_THAT(map_problem("a = 1\nthreshold"),
              HasSubstr("[config] f.yaml:2: found \"threshold\"; expected a line of the"));
  EXPECT_THAT(map_problem("[decode]\nx = 1"), HasSubstr("f.yaml:1: found \"[decode]\"; expected a line of the form"));
  EXPECT_THAT(map_problem("- a: 1"), HasSubstr("f.yaml:1: found \"- a: 1\"; expected"));
  EXPECT_THAT(map_problem("-=="), HasSubstr("f.yaml:1: found \"-==\"; expected a line"));
  EXPECT_THAT(map_problem("decode:\n  a: 1"), HasSubstr("f.yaml:1: \"decode\" has no value"));
  EXPECT_THAT(map_problem("b: 1\n  a: 1"), HasSubstr("f.yaml:2: \"a: 1\" is indented; expected a flat map"));
  EXPECT_THAT(map_problem("a: 1\na: 2"), HasSubstr("f.yaml:2: \"a\" is there twice"));
  EXPECT_THAT(map_problem("a: [1, 2]"), HasSubstr("\"a\" is [1, 2]; expected a number or a word"));
  EXPECT_THAT(map_problem("a: \"x"), HasSubstr("the quote of \"a\" has no end"));
  EXPECT_THAT(map_problem("a: \"1\" 2"), HasSubstr("found \"2\" after the value of \"a\""));
  EXPECT_THAT(map_problem("a: \"1\""), HasSubstr("\"a\" is the text \"1\"; expected a number"));
  for (const char* value : {"1x", "nan", "inf", "0x10", "true", "1e999", "1_000", "--1", "."}) {
    EXPECT_THAT(map_problem(std::string("a = ") + value), HasSubstr("expected a number")) << value;
  }
}

TEST(FlatMap, HasBounds) {
  EXPECT_THAT(map_problem(std::string((64 << 10) + 1, '#')), HasSubstr("expected a flat map of at most 65536"));
  std::string many;
  for (int i = 0; i <= 1000; ++i) many += "k" + std::to_string(i) + "=1\n";
  EXPECT_THAT(map_problem(many), HasSubstr("f.yaml:1001: more than 1000 entries"));
  EXPECT_LT(map_problem(std::string(60000, 'x')).size(), 400U);
}

}  // namespace
}  // namespace ashlar
