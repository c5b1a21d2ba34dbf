// SPDX-License-Identifier: Apache-2.0
// Random answers of a model that obeys the mask: each must be complete, valid and end.

#include <gtest/gtest.h>

#include <optional>
#include <stdexcept>

#include "io/json.h"
#include "text/tokenizer/utf8.h"
#include "unit/text/grammar/schema_checker.h"
#include "unit/text/grammar/support.h"

namespace ashlar::grammar::testing {
namespace {

constexpr uint64_t kUsualBudget = MatchingLimits::kRequest / 20;  // of what people ask for, at most

// By id: whether a token may close something.
const std::vector<bool>& closing_tokens() {
  static const auto made = [] {
    std::vector<bool> closes;
    for (int32_t id = 0; id < tokenizer().vocab_size(); ++id) {
      closes.push_back(id == eos() || tokenizer().piece_bytes(id).find_first_of("\"}]") != std::string_view::npos);
    }
    return closes;
  }();
  return made;
}

// Ends sooner the longer it has become. Nothing if it did not end in time.
std::optional<std::string> random_answer(GrammarMatcher matcher, std::mt19937_64& random) {
  std::string text;
  for (uint32_t step = 0; step < 300; ++step) {
    const std::vector<int32_t> ids = ids_of(mask_of(matcher));
    if (ids.empty()) throw std::logic_error("a dead end after " + text);
    std::vector<int32_t> closing;
    for (const int32_t id : ids) {
      if (closing_tokens()[id]) closing.push_back(id);
    }
    const std::vector<int32_t>& from = !closing.empty() && random() % 100 < 15 + step ? closing : ids;
    const int32_t id = from[random() % from.size()];
    if (!matcher.accept(id)) throw std::logic_error("an allowed token was refused after " + text);
    if (id == eos()) return text;
    text += tokenizer().piece_bytes(id);
  }
  return std::nullopt;
}

TEST(GrammarWalk, AnswersSatisfyTheirSchemas) {
  const Json goldens = read_json_file(std::filesystem::path(ASHLAR_TEST_DATA) / "grammar" / "goldens.json");
  std::mt19937_64 random(11);
  int32_t answers = 0;
  int32_t values = 0;
  for (const Json& golden : goldens["schemas"]) {
    const Json& schema = golden["schema"];
    const auto shared = over_tokens(compile_json_schema(schema));
    for (int32_t i = 0; i < 3; ++i) {
      const auto text = random_answer(GrammarMatcher(shared, {}, kUsualBudget), random);
      if (!text) continue;
      ASSERT_TRUE(text::is_valid_utf8(*text));
      const Json value = Json::parse(*text);  // extra members may repeat a key
      EXPECT_TRUE(SchemaChecker(schema).holds(schema, value)) << schema.dump() << "\n" << *text;
      ++answers;
      values += static_cast<int32_t>(value.size());
    }
    for (const Json& text : golden["rejected"]) {  // the checker can say no
      const Json value = parse_json(text.get<std::string>(), "a document");
      SchemaChecker checker(schema);
      EXPECT_TRUE(!checker.holds(schema, value) || checker.saw_text_rules()) << schema.dump() << "\n" << text;
    }
  }
  EXPECT_GT(answers, 400);
  EXPECT_GT(values, 400);
}

TEST(GrammarWalk, WhiteSpaceIsBounded) {
  GrammarMatcher matcher(over_tokens(compile_json_object()));
  ASSERT_TRUE(matcher.accept_bytes("{"));
  size_t n = 0;
  while (n < 1000 && (matcher.accept_bytes(" ") || matcher.accept_bytes("\n") || matcher.accept_bytes("\t"))) ++n;
  EXPECT_LT(n, 64U);
  EXPECT_TRUE(matcher.accept_bytes("}"));
}

}  // namespace
}  // namespace ashlar::grammar::testing
