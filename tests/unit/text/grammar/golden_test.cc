// SPDX-License-Identifier: Apache-2.0
// Documents and texts whose decision comes from the Python packages jsonschema and re
// (tools/goldens/make_grammar_goldens.py).

#include <gtest/gtest.h>

#include "io/json.h"
#include "unit/text/grammar/support.h"

namespace ashlar::grammar::testing {
namespace {

const Json& goldens() {
  static const Json json = read_json_file(std::filesystem::path(ASHLAR_TEST_DATA) / "grammar" / "goldens.json");
  return json;
}

void expect_decisions(const std::shared_ptr<TokenGrammar>& grammar, const Json& texts, bool decision,
                      const std::string& source) {
  for (const Json& text : texts) {
    EXPECT_EQ(accepts(grammar, text.get<std::string>()), decision) << source << "\n" << text;
  }
}

TEST(GrammarGolden, SchemasAcceptDocumentsLikeJsonschema) {
  ASSERT_GE(goldens()["schemas"].size(), 150U);
  for (const Json& golden : goldens()["schemas"]) {
    const auto grammar = over_tokens(compile_json_schema(golden["schema"]));
    expect_decisions(grammar, golden["accepted"], true, golden["schema"].dump());
    expect_decisions(grammar, golden["rejected"], false, golden["schema"].dump());
  }
}

TEST(GrammarGolden, RareKeywordsAcceptDocumentsLikeJsonschema) {
  ASSERT_GE(goldens()["keywords"].size(), 80U);
  for (const Json& golden : goldens()["keywords"]) {
    const auto grammar = over_tokens(compile_json_schema(golden["schema"]));
    expect_decisions(grammar, golden["accepted"], true, golden["schema"].dump());
    expect_decisions(grammar, golden["rejected"], false, golden["schema"].dump());
  }
}

TEST(GrammarGolden, PatternsMatchLikeFullmatchOfRe) {
  ASSERT_GE(goldens()["regexes"].size(), 50U);
  for (const Json& golden : goldens()["regexes"]) {
    const auto pattern = golden["pattern"].get<std::string>();
    const auto grammar = over_tokens(compile_regex(pattern));
    expect_decisions(grammar, golden["matched"], true, pattern);
    expect_decisions(grammar, golden["unmatched"], false, pattern);
  }
}

}  // namespace
}  // namespace ashlar::grammar::testing
