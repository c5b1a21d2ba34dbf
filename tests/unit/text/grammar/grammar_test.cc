// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "base/error.h"
#include "io/json.h"
#include "text/output/output_parser.h"
#include "unit/text/grammar/support.h"

namespace ashlar::grammar::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

bool schema_accepts(const char* schema, std::string_view text) {
  return accepts(compile_json_schema(parse_json(schema, "schema")), text);
}

TEST(GrammarSchema, WhatCannotBeHonouredIsNamedWithItsPlace) {
  const auto names = [](const char* schema, const char* keyword, const char* place) {
    EXPECT_THAT(schema_error_of(schema), AllOf(HasSubstr("[grammar]"), HasSubstr(keyword), HasSubstr(place))) << schema;
  };
  names(R"({"oneOf": [{"type": "array", "prefixItems": [{}]}, {"type": "array", "prefixItems": [{"type": "null"}]}]})",
        "alternatives 0 and 1 may hold at once", "#/oneOf/1/prefixItems");
  names(R"({"properties": {"a": {"not": {"oneOf": []}}}})", "oneOf", "#/properties/a/not");
  names(R"({"properties": {"a": {"not": {"prefixItems": []}}}})", "prefixItems", "#/properties/a/not");
  names(R"({"not": {"const": {"a": 1}}})", "not", "#/not");
  names(R"({"if": {"uniqueItems": true}, "then": {}})", "uniqueItems", "#/if/uniqueItems");
  names(R"({"type": "object", "patternProperties": {"(?<!a)b": true}})", "look-around", "#/patternProperties");
  names(R"({"type": "number", "multipleOf": 0.0000001})", "multipleOf", "#/multipleOf");
  names(R"({"type": "integer", "multipleOf": 123456789})", "multipleOf", "#/multipleOf");
  names(R"({"type": "integer", "multipleOf": 0})", "above 0", "#/multipleOf");
  names(R"({"type": "array", "uniqueItems": true})", "uniqueItems", "#/uniqueItems");
  names(R"({"type": "array", "items": {"type": "string"}, "uniqueItems": true})", "uniqueItems", "#/uniqueItems");
  names(R"({"items": {"enum": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]}, "uniqueItems": true})", "10", "#/uniqueItems");
  names(R"({"prefixItems": [true], "contains": {"const": 1}})", "contains", "#/contains");
  names(R"({"type": "object", "minProperties": 2})", "minProperties", "#/minProperties");
  names(R"({"type": "object", "properties": {"a": true}, "minProperties": 2})", "minProperties", "#/minProperties");
  names(R"({"unevaluatedItems": false})", "unevaluatedItems", "#/unevaluatedItems");
  names(
      R"({"allOf": [{"patternProperties": {"^x": true}, "additionalProperties": false}, {"properties": {"xa": {}}}]})",
      "patternProperties", "#/allOf");
  names(
      R"({"allOf": [{"patternProperties": {"^x": true}, "additionalProperties": false},
                    {"patternProperties": {"^y": true}, "additionalProperties": false}]})",
      "expected both to list the pattern", "#/allOf");
  names(R"({"items": {"type": "string", "format": "iri"}})", "iri", "#/items/format");
  names(R"({"type": "string", "pattern": "(?!a)b"})", "look-around", "#/pattern");
  names(R"({"type": "string", "pattern": "^(?!a)b|c"})", "look-around", "#/pattern");
  names(R"({"type": "string", "pattern": "^(?!a(?!b))c"})", "look-around", "#/pattern");
  names(R"({"type": "strin"})", "strin", "#/type");
  names(R"({"$ref": "other.json"})", "other.json", "#");
  names(R"({"properties": {"a~/b": {"$ref": "#/$defs/x"}}})", "#/$defs/x", "#/properties/a~0~1b");
  names(R"({"type": "object", "required": ["a"], "properties": {}, "additionalProperties": false})", "required",
        "#/required");
  names(R"({"allOf": [{"format": "date"}, {"format": "time"}]})", "format", "#/allOf");
  names(R"({"type": "string", "minLength": 100000})", "10000", "#/minLength");
  names(R"([1])", "expected an object", "#");
}

// What each alternative costs the others is counted: texts and names by their length.
TEST(GrammarSchema, AlternativesThatMultiplyAreRefused) {
  const auto one_of = [](const std::string& defined, int times) {
    std::string list = R"({"$ref": "#/$defs/x"})";
    for (int i = 1; i < times; ++i) list += R"(, {"$ref": "#/$defs/x"})";
    return R"({"$defs": {"x": )" + defined + R"(}, "oneOf": [)" + list + "]}";
  };
  EXPECT_THAT(schema_error_of(one_of("true", 129).c_str()), HasSubstr("at most 128"));
  const std::string constant = R"({"const": ")" + std::string(50000, 'x') + "\"}";
  EXPECT_THAT(schema_error_of(one_of(constant, 120).c_str()), HasSubstr("steps to compile"));
  std::string names;
  for (int i = 0; i < 2500; ++i) names += (i == 0 ? "\"p" : ", \"p") + std::to_string(i) + "\"";
  EXPECT_THAT(schema_error_of(one_of(R"({"type": "object", "required": [)" + names + "]}", 120).c_str()),
              HasSubstr("steps to compile"));
}

TEST(GrammarSchema, AnnotationsPass) {
  EXPECT_TRUE(
      schema_accepts(R"({"title": "T", "description": "d", "default": 1, "examples": [2], "$schema": "s", "$id": "i",
                                 "$comment": "c", "x-order": 3, "type": "integer"})",
                     "3"));
}

TEST(GrammarSchema, EndlessSchemasAreRefused) {
  EXPECT_THAT(schema_error_of(R"({"$ref": "#"})"), HasSubstr("no text satisfies it"));
  EXPECT_THAT(schema_error_of(R"({"anyOf": [{"$ref": "#"}], "type": "object"})"), HasSubstr("[grammar]"));
  EXPECT_THAT(schema_error_of(R"({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]})"),
              HasSubstr("no text satisfies it"));
  EXPECT_THAT(schema_error_of("false"), HasSubstr("no text satisfies it"));
}

TEST(GrammarSchema, StringsAreValidJson) {
  for (const char* text : {R"("a\nb")", R"("\u00e9")", R"("\ud83d\ude00")", R"("😀")", R"("\\\"")"}) {
    EXPECT_TRUE(schema_accepts(R"({"type": "string"})", text)) << text;
  }
  for (const char* text : {"\"a\nb\"", R"("\x")", R"("\ud83d")", R"("\ude00\ud83d")", "\"\xff\"", "\"\xed\xa0\x80\"",
                           "\"\x01\"", "\"\xc0\xaf\"", "'a'"}) {
    EXPECT_FALSE(schema_accepts(R"({"type": "string"})", text)) << text;
  }
  // A surrogate pair is one character.
  EXPECT_TRUE(schema_accepts(R"({"type": "string", "maxLength": 1})", R"("\ud83d\ude00")"));
  EXPECT_FALSE(schema_accepts(R"({"type": "string", "maxLength": 1})", R"("ab")"));
}

TEST(GrammarSchema, NullableAndDraft4) {
  EXPECT_TRUE(schema_accepts(R"({"type": "integer", "nullable": true})", "null"));
  EXPECT_FALSE(schema_accepts(R"({"type": "integer"})", "null"));
  EXPECT_FALSE(schema_accepts(R"({"type": "integer", "minimum": 3, "exclusiveMinimum": true})", "3"));
  EXPECT_TRUE(schema_accepts(R"({"type": "integer", "minimum": 3, "exclusiveMinimum": true})", "4"));
  const char* tuple = R"({"type": "array", "items": [{"type": "integer"}], "additionalItems": {"type": "null"}})";
  EXPECT_TRUE(schema_accepts(tuple, "[1, null, null]"));
  EXPECT_FALSE(schema_accepts(tuple, "[null]"));
}

TEST(GrammarSchema, IntegerRangesAgreeWithCounting) {
  std::mt19937_64 random(5);
  for (int32_t i = 0; i < 40; ++i) {
    const int64_t low = static_cast<int64_t>(random() % 400) - 200;
    const int64_t high = low + static_cast<int64_t>(random() % 300);
    const auto shared =
        over_tokens(compile_json_schema(Json{{"type", "integer"}, {"minimum", low}, {"maximum", high}}));
    for (int64_t n = -250; n <= 550; ++n) {
      ASSERT_EQ(accepts(shared, std::to_string(n)), n >= low && n <= high) << n << " in " << low << " .. " << high;
    }
    EXPECT_FALSE(accepts(shared, "007"));
  }
}

TEST(GrammarLimits, EachIsNamed) {
  CompileOptions options;
  options.limits.input_bytes = 10;
  EXPECT_THAT(error_of([&] { compile_regex("abcdefghijkl", options); }), HasSubstr("the limit is 10"));
  EXPECT_THAT(error_of([&] { compile_ebnf("root ::= \"a\" \"b\"", options); }), HasSubstr("the limit is 10"));
  EXPECT_THAT(error_of([&] { compile_choice({"abcdef", "ghijkl"}, options); }), HasSubstr("the limit is 10"));
  EXPECT_THAT(error_of([&] {
                compile_json_schema(Json{{"title", "abcdefghi"}}, options);
              }),
              HasSubstr("the limit is 10"));
  options = {};
  EXPECT_THAT(error_of([&] { compile_regex("a{20000}"); }), HasSubstr("20000"));
  EXPECT_THAT(error_of([&] { compile_regex(std::string(100, '(') + std::string(100, ')')); }), HasSubstr("64 levels"));
  options.limits.nodes = 100;
  EXPECT_THAT(error_of([&] { compile_regex("a{200}", options); }), HasSubstr("100 states"));
  options = {};
  options.limits.rules = 3;
  EXPECT_THAT(
      error_of([&] { compile_ebnf("root ::= a b c d a ::= \"a\" b ::= \"b\" c ::= \"c\" d ::= \"d\"", options); }),
      HasSubstr("3 rules"));
  options = {};
  options.limits.steps = 50;
  EXPECT_THAT(error_of([&] { compile_json_object(options); }), HasSubstr("50 steps"));
  // Doubling at each of 30 levels ends at a limit, soon.
  Json defs = Json::object();
  for (int32_t i = 0; i < 30; ++i) {
    const Json next = {{"$ref", "#/$defs/" + std::to_string(i + 1)}};
    defs[std::to_string(i)] = {{"allOf", {next, next}}, {"minLength", i}};
  }
  defs["30"] = {{"type", "string"}};
  EXPECT_THAT(error_of([&] { compile_json_schema(Json{{"$ref", "#/$defs/0"}, {"$defs", defs}}); }), HasSubstr("steps"));
}

TEST(GrammarLimits, WhatMultipliesEndsSoon) {
  // A counter next to each of many places; conditions on one another.
  EXPECT_THAT(schema_error_of(R"({"type": "string", "pattern": "^(a|b)*a(a|b){18}$", "maxLength": 5000})"),
              HasSubstr("[grammar]"));
  Json conditions = Json::array();
  for (int32_t i = 0; i < 40; ++i) {
    const std::string name = "p" + std::to_string(i);
    conditions.push_back({{"if", {{"required", Json::array({name})}}}, {"then", {{"required", Json::array({"q"})}}}});
  }
  const Json schema = {{"type", "object"}, {"properties", {{"q", true}}}, {"allOf", conditions}};
  EXPECT_THAT(error_of([&] { compile_json_schema(schema); }), HasSubstr("[grammar]"));
  // Twenty values of one property that decide, each with its own rule: only one of them can hold.
  Json cases = Json::array();
  Json kinds = Json::array();
  for (int32_t i = 0; i < 20; ++i) {
    kinds.push_back("kind" + std::to_string(i));
    const Json is = {{"properties", {{"k", {{"const", kinds.back()}}}}}, {"required", Json::array({"k"})}};
    cases.push_back({{"if", is}, {"then", {{"properties", {{"n", {{"minimum", i}}}}}}}});
  }
  const Json decided = {{"type", "object"},
                        {"properties", {{"k", {{"enum", kinds}}}, {"n", {{"type", "integer"}}}}},
                        {"required", {"k", "n"}},
                        {"allOf", cases}};
  const auto shared = over_tokens(compile_json_schema(decided));
  EXPECT_TRUE(accepts(shared, R"({"k":"kind7","n":7})"));
  EXPECT_FALSE(accepts(shared, R"({"k":"kind7","n":6})"));
}

TEST(GrammarLimits, ConditionsThatMultiplyAreNamedWithThePlaceOfOne) {
  Json properties = Json::object(), whens = Json::array(), dependent = Json::object();
  const auto add = [&](int32_t i) {
    const std::string a = "a" + std::to_string(i), b = "b" + std::to_string(i);
    properties[a] = {{"type", "integer"}};
    properties[b] = {{"type", "string"}};
    const Json is = {{"properties", {{a, {{"const", 1}}}}}, {"required", Json::array({a})}};
    whens.push_back({{"if", is}, {"then", {{"required", Json::array({b})}}}});
    dependent[a] = Json::array({b});
  };
  const auto error_with = [&](const char* key, const Json& conditions) {
    return error_of([&] {
      compile_json_schema(Json{{"type", "object"}, {"properties", properties}, {key, conditions}});
    });
  };
  for (int32_t i = 0; i < 4; ++i) add(i);
  EXPECT_EQ(error_with("allOf", whens), "no error");
  for (int32_t i = 4; i < 6; ++i) add(i);
  EXPECT_THAT(error_with("allOf", whens),
              AllOf(HasSubstr("rules"), HasSubstr("6 conditions"), HasSubstr("#/allOf/0/if")));
  add(6);
  EXPECT_EQ(error_with("dependentRequired", dependent), "no error");
  add(7);
  const std::string states = error_with("dependentRequired", dependent);
  EXPECT_THAT(states, AllOf(HasSubstr("states"), HasSubstr("8 conditions"), HasSubstr("#/dependentRequired/a0")));
  const std::string tools = error_of([&] {
    compile_tool_calls({{"f", {{"type", "object"}, {"properties", properties}, {"allOf", whens}}}}, {});
  });
  EXPECT_THAT(tools, AllOf(HasSubstr("tool \"f\""), HasSubstr("8 conditions"), HasSubstr("#/allOf/0/if")));
  // Nothing of the kind where it is something else that is too much.
  Json texts = Json::object();
  for (int32_t i = 0; i < 60; ++i) texts["p" + std::to_string(i)] = {{"type", "string"}, {"maxLength", 9900 + i}};
  EXPECT_THAT(error_of([&] {
                compile_json_schema(Json{{"type", "object"}, {"properties", texts}});
              }),
              AllOf(HasSubstr("states"), ::testing::Not(HasSubstr("conditions"))));
}

TEST(GrammarEbnf, RulesRepetitionsAndComments) {
  const auto list = over_tokens(compile_ebnf(R"ebnf(
      # a list
      root ::= "(" item (", " item){0,2} ")"  # at most three
      item ::= [^,()\n]+ | root)ebnf"));
  EXPECT_TRUE(accepts(list, "(a, b c, (d))"));
  EXPECT_FALSE(accepts(list, "(a, b, c, d)"));
  EXPECT_FALSE(accepts(list, "(a"));
  EXPECT_THAT(error_of([] { compile_ebnf("a ::= \"x\""); }), HasSubstr("root"));
  EXPECT_THAT(error_of([] { compile_ebnf("root ::= b"); }), HasSubstr("\"b\""));
  EXPECT_THAT(error_of([] { compile_ebnf("root ::= \"a\" root ::= \"b\""); }), HasSubstr("twice"));
  EXPECT_THAT(error_of([] { compile_ebnf("root ::= a \"x\" a ::= root | \"\""); }), HasSubstr("begins with itself"));
  EXPECT_THAT(error_of([] { compile_ebnf("root ::= \"a\" )"); }), HasSubstr("byte 13"));
}

}  // namespace
}  // namespace ashlar::grammar::testing
