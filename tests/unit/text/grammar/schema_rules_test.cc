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

std::string error_of(const char* schema) {
  try {
    compile_json_schema(parse_json(schema, "schema"));
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

void judges(const char* schema, const std::vector<const char*>& valid, const std::vector<const char*>& invalid) {
  const auto shared = over_tokens(compile_json_schema(parse_json(schema, "schema")));
  for (const char* text : valid) EXPECT_TRUE(accepts(shared, text)) << text << " of " << schema;
  for (const char* text : invalid) EXPECT_FALSE(accepts(shared, text)) << text << " of " << schema;
}

TEST(GrammarSchemaRules, ItemsOfOneSchemaHoldAtThePlacesOfAnother) {
  judges(R"({"allOf": [{"prefixItems": [{"type": "string"}]}, {"items": {"type": "integer"}}], "type": "array"})",
         {"[]"}, {R"(["a"])", R"(["a", 1])", "[1]"});
  judges(R"({"$defs": {"ints": {"type": "array", "items": {"type": "integer"}}}, "$ref": "#/$defs/ints",
             "prefixItems": [{"minimum": 0}]})",
         {"[]", "[1]", "[1, -5]"}, {"[0.5]", "[-1]", "[1, 0.5]"});
  judges(R"({"type": "array", "allOf": [{"prefixItems": [{"minimum": 0}, {"maximum": 9}], "items": {"type": "integer"}},
                       {"prefixItems": [{"type": "integer"}], "items": {"type": "number", "maximum": 7}}]})",
         {"[8, 7]", "[1, 2, 3]", "[8, -1, 7]"}, {"[-1]", "[1, 8]", "[1, 2, 8]", "[1, 2, 0.5]"});
  // Before draft 2020.
  judges(R"({"type": "array", "allOf": [{"items": [{"type": "string"}], "additionalItems": {"type": "integer"}},
                       {"items": {"minLength": 2}}]})",
         {R"(["ab"])", R"(["ab", 1])"}, {R"(["a"])", "[1]", R"(["ab", "ab"])"});
}

TEST(GrammarSchemaRules, ContainsCountsWhereItStands) {
  judges(R"({"type": "array", "items": {"type": ["integer", "null"]}, "allOf": [
             {"contains": {"type": "integer"}, "minContains": 0}, {"contains": {"type": "integer"}}]})",
         {"[1]", "[null, 1]"}, {"[]", "[null]"});
  judges(R"({"type": "array", "items": {"type": ["integer", "null"]}, "allOf": [
             {"contains": {"type": "integer"}, "maxContains": 2}, {"minContains": 2}]})",
         {"[1]", "[1, 1]"}, {"[]", "[1, 1, 1]"});
}

}  // namespace
}  // namespace ashlar::grammar::testing
