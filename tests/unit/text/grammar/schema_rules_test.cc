// SPDX-License-Identifier: Apache-2.0
// What schemas say together, and what their keywords say about constants, character by character.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "io/json.h"
#include "unit/text/grammar/support.h"

namespace ashlar::grammar::testing {
namespace {

using ::testing::HasSubstr;

void accepts_only(const char* schema, const std::vector<std::string>& valid, const std::vector<std::string>& invalid) {
  const auto shared = over_tokens(compile_json_schema(parse_json(schema, "schema")));
  for (const std::string& text : valid) EXPECT_TRUE(accepts(shared, text)) << text << " of " << schema;
  for (const std::string& text : invalid) EXPECT_FALSE(accepts(shared, text)) << text << " of " << schema;
}

TEST(GrammarSchemaRules, ItemsOfOneSchemaHoldAtThePlacesOfAnother) {
  accepts_only(R"({"allOf": [{"prefixItems": [{"type": "string"}]}, {"items": {"type": "integer"}}], "type": "array"})",
               {"[]"}, {R"(["a"])", R"(["a", 1])", "[1]"});
  accepts_only(R"({"$defs": {"ints": {"type": "array", "items": {"type": "integer"}}}, "$ref": "#/$defs/ints",
             "prefixItems": [{"minimum": 0}]})",
               {"[]", "[1]", "[1, -5]"}, {"[0.5]", "[-1]", "[1, 0.5]"});
  accepts_only(
      R"({"type": "array", "allOf": [{"prefixItems": [{"minimum": 0}, {"maximum": 9}], "items": {"type": "integer"}},
                       {"prefixItems": [{"type": "integer"}], "items": {"type": "number", "maximum": 7}}]})",
      {"[8, 7]", "[1, 2, 3]", "[8, -1, 7]"}, {"[-1]", "[1, 8]", "[1, 2, 8]", "[1, 2, 0.5]"});
  accepts_only(
      R"({"type": "array", "allOf": [{"prefixItems": [{"const": 0}, {"enum": [1, 2]}]}, {"items": {"type": "object"}}]})",
      {"[]"}, {"[0]", "[0, 1]"});
  // Before draft 2020.
  accepts_only(R"({"type": "array", "allOf": [{"items": [{"type": "string"}], "additionalItems": {"type": "integer"}},
                       {"items": {"minLength": 2}}]})",
               {R"(["ab"])", R"(["ab", 1])"}, {R"(["a"])", "[1]", R"(["ab", "ab"])"});
}

TEST(GrammarSchemaRules, ContainsCountsWhereItStands) {
  accepts_only(R"({"type": "array", "items": {"type": ["integer", "null"]}, "allOf": [
             {"contains": {"type": "integer"}, "minContains": 0}, {"contains": {"type": "integer"}}]})",
               {"[1]", "[null, 1]"}, {"[]", "[null]"});
  accepts_only(R"({"type": "array", "items": {"type": ["integer", "null"]}, "allOf": [
             {"contains": {"type": "integer"}, "maxContains": 2}, {"minContains": 2}]})",
               {"[1]", "[1, 1]"}, {"[]", "[1, 1, 1]"});
}

TEST(GrammarSchemaRules, NamesOfHostsAnnounceNoEncoding) {
  const auto in_quotes = [](const std::string& text) { return "\"" + text + "\""; };
  const std::string long_label = "a" + std::string(30, '-') + "b";
  accepts_only(R"({"type": "string", "format": "hostname"})",
               {R"("a")", R"("ab")", R"("a-b")", R"("a--b")", R"("ab-c")", R"("a-b-c")", R"("ab-cd")", R"("abc-d")",
                R"("a--b--c")", R"("x.ab-c.3d")", in_quotes("ab" + std::string(29, 'c') + "d")},
               {R"("xn--zzzz")", R"("a.xn--zzzz")", R"("ab--c")", R"("a---b")", R"("-a")", R"("a-")", R"("ab--")",
                R"("a.")", in_quotes(long_label), in_quotes(std::string(33, 'a'))});
}

TEST(GrammarSchemaRules, AddressesOfMailEndInLettersAndBeginShort) {
  const auto at = [](const std::string& before) { return "\"" + before + "@example.org\""; };
  const std::string a64(64, 'a'), a32(32, 'a'), a31(31, 'a'), a20(20, 'a'), a12(12, 'a');
  accepts_only(
      R"({"type": "string", "format": "email"})",
      {R"("jo.doe@example.org")", R"("jo@a.b.co")", R"("jo+x@3com.example")", at("a.b.c.d.e"), at(a64),
       at(a31 + "." + a31), at(a20 + "." + a20 + "." + a20), at(a12 + "." + a12 + "." + a12 + "." + a12)},
      {R"("jo@example")", R"("jo@example.1")", R"("jo@1.2.3.4")", R"("jo@example.c")", R"("jo@example.c0m")",
       R"("jo@xn--zzzz.org")", R"("jo..doe@example.org")", R"("@example.org")", at(a64 + "a"), at(a32 + "." + a32),
       at(a20 + "." + a20 + "." + a20 + ".aaaa"), at(a12 + "." + a12 + "." + a12 + "." + a12 + "." + a12 + "a")});
}

TEST(GrammarSchemaRules, FewerItemsThanNeededAreNone) {
  EXPECT_THAT(schema_error_of(R"({"type": "array", "prefixItems": [{}, {}, {}, {}], "minItems": 3, "maxItems": 2})"),
              HasSubstr("no text satisfies it"));
  accepts_only(R"({"anyOf": [{"type": "array", "prefixItems": [{}, {}, {}, {}], "minItems": 3, "maxItems": 2},
                       {"type": "null"}]})",
               {"null"}, {"[1, 2]", "[]", "[1, 2, 3]"});
}

TEST(GrammarSchemaRules, UnevaluatedPropertiesKnowOnlyTheirOwnSchema) {
  const char* base = R"({"$defs": {"B": {"type": "object", "properties": {"id": {"type": "integer"}},
      "required": ["id"], "unevaluatedProperties": false}}, "$ref": "#/$defs/B", "properties": {"x": {"type": "string"}}})";
  accepts_only(base, {R"({"id": 1})"}, {R"({"id": 1, "x": "s"})", "{}"});
  accepts_only(R"({"type": "object", "properties": {"b": {"type": "null"}},
             "anyOf": [{"properties": {"a": {"type": "null"}}, "required": ["a"], "unevaluatedProperties": false},
                       {"properties": {"c": {"type": "null"}}, "required": ["c"]}]})",
               {R"({"a": null})", R"({"b": null, "c": null})"},
               {R"({"b": null, "a": null})", R"({"a": null, "b": null})"});
  accepts_only(R"({"type": "object", "allOf": [{"properties": {"a": {"type": "null"}},
             "unevaluatedProperties": {"type": "integer"}}], "properties": {"b": {"minimum": 3}}})",
               {R"({"b": 3})", R"({"b": 4, "a": null})"}, {R"({"b": 2})", R"({"b": 3.5})"});
  // At the top it sees what is merged in.
  accepts_only(R"({"type": "object", "allOf": [{"properties": {"a": {"type": "null"}}, "required": ["a"]}],
             "properties": {"b": {"type": "null"}}, "unevaluatedProperties": false})",
               {R"({"b": null, "a": null})"}, {R"({"a": null, "c": 1})"});
  EXPECT_THAT(schema_error_of(R"({"type": "object", "properties": {"b": {}}, "allOf": [{"unevaluatedProperties": false,
                           "anyOf": [{"properties": {"a": {}}}, {"properties": {"c": {}}}]}]})"),
              HasSubstr("unevaluatedProperties"));
}

// Readers of patterns do not agree on \s, \w, \d. What is written matches for all of them, what must not match does so
// for none.
TEST(GrammarSchemaRules, WhiteSpaceThatMustNotBeIsThatOfUnicode) {
  accepts_only(R"({"type": "string", "pattern": "^[^\\s@]+@[^\\s@]+$"})", {R"("a@b")", R"("é@b")"},
               {"\"a\u00a0@b\"", "\"a@\u2003b\"", "\"a b@c\""});
  accepts_only(R"({"type": "string", "pattern": "^(?!.*\\s).{8,}$"})", {R"("abcdefgh")"},
               {"\"abcd\u00a0efgh\"", "\"abcd efgh\"", "\"abc\""});
  accepts_only(R"({"type": "string", "not": {"pattern": "\\s"}})", {R"("abc")"}, {"\"a\u00a0c\"", R"("a c")"});
  accepts_only(R"({"type": "string", "not": {"pattern": "^\\d$"}})", {R"("a")", R"("12")"}, {"\"\u0663\"", R"("1")"});
  accepts_only(R"({"type": "string", "not": {"pattern": "\\W"}})", {R"("ab")"}, {"\"a\u00e9\"", R"("a-")"});
  accepts_only(R"({"type": "string", "pattern": "^[\\s]$"})", {R"(" ")"}, {"\"\u00a0\""});
  // \d and \w of what is written, and what is none of them, are of ASCII.
  accepts_only(R"({"type": "string", "pattern": "^\\W[^\\w]\\D$"})", {R"("-éx")"},
               {R"("ax-")", R"("-x-")", R"("--1")"});
}

TEST(GrammarSchemaRules, NamesThatMayMatchAPatternSatisfyBothRules) {
  accepts_only(R"({"type": "object", "properties": {}, "patternProperties": {"^\\w$": {"type": "integer"}},
             "additionalProperties": {"type": "null"}})",
               {R"({"a": 1})", R"({"-": null})"},
               {R"({"a": null})", "{\"\u00e9\": 1}", "{\"\u00e9\": null}", R"({"-": 1})"});
  accepts_only(R"({"type": "object", "required": ["é"], "patternProperties": {"^\\w$": {"minimum": 3}},
             "additionalProperties": {"type": "integer"}})",
               {"{\"é\": 3}"}, {"{\"é\": 2}", "{\"é\": 3.5}"});
}

TEST(GrammarSchemaRules, AlternativesThatMayBothMatchAreNotApart) {
  accepts_only(
      "{\"oneOf\": [{\"type\": \"string\", \"pattern\": \"^\\\\s$\"}, {\"type\": \"string\", \"pattern\": "
      "\"^[\u00a0x]$\"}]}",
      {R"(" ")", R"("x")"}, {"\"\u00a0\""});
}

TEST(GrammarSchemaRules, ConstantsAreComparedAsValues) {
  accepts_only(R"({"type": "number", "minimum": 0, "enum": [0.00000025, 1, -1]})", {"2.5e-07", "1"}, {"-1"});
  accepts_only(R"({"type": "string", "format": "uuid", "enum": ["ABCDEF01-ABCD-4BCD-ABCD-ABCDABCDABCD", "no"]})",
               {R"("ABCDEF01-ABCD-4BCD-ABCD-ABCDABCDABCD")"}, {R"("no")"});
  accepts_only(R"({"type": "integer", "enum": [1e16, 1.5, 1.0]})", {"1e+16", "1.0"}, {"1.5"});
  accepts_only(R"({"exclusiveMinimum": 2, "maximum": 5, "enum": [2, 2.0000001, 5, 5.1, "a", null, 9]})",
               {"2.0000001", "5", "\"a\"", "null"}, {"2", "5.1", "9"});
  accepts_only(R"({"minimum": 2, "exclusiveMinimum": true, "enum": [2, 3]})", {"3"}, {"2"});
  accepts_only(R"({"multipleOf": 0.3, "enum": [0.9, 1, -1.2, 30000000000000000000, 0, 0.00000003]})",
               {"0.9", "-1.2", "3e+19", "0"}, {"1", "3e-08"});
  accepts_only(R"({"multipleOf": 1000, "enum": [1e16, 500, 0.5, -3000]})", {"1e+16", "-3000"}, {"500", "0.5"});
  accepts_only(
      R"({"enum": ["a", "abc", "abcd", "xbcd", "éé", 7], "minLength": 2, "maxLength": 3, "not": {"pattern": "^x"}})",
      {R"("abc")", R"("éé")"}, {R"("a")", R"("abcd")", R"("xbcd")"});
  accepts_only(R"({"enum": ["ab", "ba", "bab"], "pattern": "^(?!.*aa)b", "allOf": [{"pattern": "b$"}]})", {R"("bab")"},
               {R"("ab")", R"("ba")"});
  EXPECT_THAT(schema_error_of(R"({"enum": [[1], {}], "minItems": 2})"), HasSubstr("do not go with other keywords"));
}

// Each text is held against a pattern that was compiled once.
TEST(GrammarSchemaRules, ManyConstantsBesideAPatternTakeOneCompilation) {
  Json schema = {{"type", "string"}, {"pattern", "^[ -~]{0,8000}$"}, {"maxLength", 8000}, {"enum", Json::array()}};
  for (int32_t i = 0; i < 2000; ++i) schema["enum"].push_back("text " + std::to_string(i));
  schema["enum"].push_back("é");
  const auto shared = over_tokens(compile_json_schema(schema));
  EXPECT_TRUE(accepts(shared, "\"text 1999\""));
  EXPECT_FALSE(accepts(shared, "\"é\""));
}

TEST(GrammarSchemaRules, TextsOnTheWayCountAsSteps) {
  Json schema = {{"anyOf", Json::array()}};
  for (int32_t i = 0; i < 500; ++i) {
    schema["anyOf"].push_back({{"pattern", "^[ -~]{0,10000}" + std::to_string(i) + "$"}, {"enum", {"a", i}}});
  }
  try {
    compile_json_schema(schema);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("steps to compile"));
  }
}

TEST(GrammarSchemaRules, BoundsThatADoubleRoundsAreRefused) {
  for (const char* bound : {"9007199254740993", "-9007199254740993"}) {
    for (const char* key : {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}) {
      const std::string schema = R"({"type": "integer", ")" + std::string(key) + "\": " + bound + "}";
      EXPECT_THAT(schema_error_of(schema.c_str()), HasSubstr("2^53")) << schema;
    }
  }
  accepts_only(R"({"type": "integer", "minimum": 9007199254740992})", {"9007199254740992", "9007199254740993"},
               {"9007199254740991"});
}

}  // namespace
}  // namespace ashlar::grammar::testing
