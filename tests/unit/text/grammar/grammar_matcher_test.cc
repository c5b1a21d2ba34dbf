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

TEST(GrammarMatcher, ChoicesAndTheEnd) {
  const auto shared = over_tokens(compile_choice({"yes", "yesterday", "no"}));
  GrammarMatcher matcher(shared);
  EXPECT_FALSE(matcher.can_end());
  EXPECT_FALSE(matcher.accept(eos()));
  ASSERT_TRUE(matcher.accept_bytes("yes"));
  EXPECT_TRUE(matcher.can_end());
  EXPECT_FALSE(matcher.finished());
  EXPECT_THAT(ids_of(mask_of(matcher)), ::testing::Contains(eos()));
  GrammarMatcher longer = matcher;
  EXPECT_EQ(longer.forced(100), "");  // the end is possible too
  ASSERT_TRUE(longer.accept_bytes("t"));
  EXPECT_EQ(longer.forced(100), "erday");
  EXPECT_EQ(longer.forced(3), "erd");
  ASSERT_TRUE(longer.accept_bytes("erday"));
  EXPECT_TRUE(longer.finished());
  EXPECT_EQ(ids_of(mask_of(longer)), std::vector<int32_t>{eos()});
  ASSERT_TRUE(matcher.accept(eos()));
  EXPECT_TRUE(matcher.finished());
  EXPECT_FALSE(matcher.accept_bytes("t"));
  EXPECT_THAT(error_of([] { compile_choice({}); }), HasSubstr("nothing to choose"));
}

TEST(GrammarMatcher, SleepsUntilTheThinkingEnds) {
  const int32_t end_of_thinking = *tokenizer().token_id("</think>");
  CompileOptions options;
  options.leading_newlines = true;
  const auto shared = over_tokens(compile_choice({"yes"}, options));
  GrammarMatcher matcher(shared, {end_of_thinking, {}});
  EXPECT_TRUE(matcher.asleep());
  for (const int32_t id : tokenizer().encode("anything {goes}")) ASSERT_TRUE(matcher.accept(id));
  EXPECT_TRUE(matcher.asleep());
  // Everything but the end: an answer that ends here would not be what the grammar asks for.
  EXPECT_FALSE(matcher.can_end());
  EXPECT_FALSE(matcher.accept(eos()));
  EXPECT_THAT(ids_of(mask_of(matcher)), ::testing::Not(::testing::Contains(eos())));
  EXPECT_GE(ids_of(mask_of(matcher)).size(), static_cast<size_t>(tokenizer().vocab_size()) - 1);
  ASSERT_TRUE(matcher.accept(end_of_thinking));
  EXPECT_FALSE(matcher.asleep());
  EXPECT_FALSE(GrammarMatcher(matcher).accept_bytes("no"));
  EXPECT_TRUE(GrammarMatcher(matcher).accept_bytes("yes"));
  EXPECT_TRUE(GrammarMatcher(matcher).accept_bytes("\n\nyes"));
  EXPECT_FALSE(GrammarMatcher(matcher).accept_bytes("\n\n\n"));

  GrammarMatcher by_text(shared, {-1, "[/THINK]"});
  for (const int32_t id : tokenizer().encode("hm [/THIN [/THINK")) ASSERT_TRUE(by_text.accept(id));
  EXPECT_TRUE(by_text.asleep());
  for (const int32_t id : tokenizer().encode("]")) ASSERT_TRUE(by_text.accept(id));
  EXPECT_FALSE(by_text.asleep());
  EXPECT_TRUE(by_text.accept_bytes("\nyes"));
}

TEST(GrammarMatcher, AnAnswerMayOpenItsThinkingItself) {
  const WakeAfter wake = {*tokenizer().token_id("</think>"), "</think>", "<think>"};
  const auto takes = [&](Grammar grammar, std::string_view text) {
    GrammarMatcher matcher(over_tokens(std::move(grammar)), wake);
    for (const char byte : text) {
      if (!matcher.accept_bytes({&byte, 1})) return false;
    }
    return matcher.can_end();
  };
  for (const char* text :
       {"yes", "<think>hm</think>yes", "<think></think>\n\nyes", "<think>a < b </thin </think>\nyes"}) {
    EXPECT_TRUE(takes(compile_choice({"yes"}), text)) << text;
  }
  for (const char* text : {"", "no", "<", "<think", "<thinking></think>no", "<think>hm</think>", "<think>hm</think>no",
                           "<think></think>\n\n\nyes", "\nyes", "yes<think></think>", "<yes"}) {
    EXPECT_FALSE(takes(compile_choice({"yes"}), text)) << text;
  }
  // What the grammar and the opening share is either until they part.
  EXPECT_TRUE(takes(compile_choice({"<th>", "<think"}), "<th>"));
  EXPECT_TRUE(takes(compile_choice({"<th>", "<think"}), "<think"));
  EXPECT_TRUE(takes(compile_choice({"<th>", "<think"}), "<think>x</think><th>"));
  EXPECT_FALSE(takes(compile_choice({"<th>", "<think"}), "<think>x</think>"));
  // By tokens: the opening in one or in several, the end as a special token, which is no text.
  GrammarMatcher matcher(over_tokens(compile_choice({"yes"})), wake);
  EXPECT_EQ(matcher.forced(9), "");
  for (const int32_t id : tokenizer().encode("<think>and so on", {.parse_special = false})) {
    const std::vector<int32_t> allowed = ids_of(mask_of(matcher));
    EXPECT_TRUE(matcher.asleep() || std::find(allowed.begin(), allowed.end(), id) != allowed.end());
    ASSERT_TRUE(matcher.accept(id));
  }
  EXPECT_TRUE(matcher.asleep());
  ASSERT_TRUE(matcher.accept(wake.token));
  EXPECT_FALSE(matcher.asleep());
  ASSERT_TRUE(matcher.accept_bytes("\nyes"));
  EXPECT_TRUE(matcher.finished());
  // The opening as a token of its own that is no text, at the beginning only.
  WakeAfter tokens = wake;
  tokens.opening_token = *tokenizer().token_id("<think>");
  GrammarMatcher special(over_tokens(compile_choice({"yes"})), tokens);
  GrammarMatcher begun = special;
  EXPECT_THAT(ids_of(mask_of(special)), ::testing::Contains(tokens.opening_token));
  ASSERT_TRUE(special.accept(tokens.opening_token));
  EXPECT_TRUE(special.asleep());
  EXPECT_FALSE(special.can_end());
  ASSERT_TRUE(begun.accept_bytes("y"));
  EXPECT_FALSE(begun.accept(tokens.opening_token));
}

TEST(GrammarToolCalls, NamesArgumentsAndNumber) {
  const Json city =
      parse_json(R"({"type": "object", "properties": {"city": {"$ref": "#/$defs/name"}}, "required": ["city"],
      "$defs": {"name": {"enum": ["Rome", "Oslo"]}}})",
                 "schema");
  ToolCallOptions calls;
  calls.max_calls = 2;
  const auto shared = over_tokens(compile_tool_calls({{"weather", city}, {"now", nullptr}}, calls));
  const std::string one = "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>";
  const std::string other = "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>";
  EXPECT_TRUE(accepts(shared, one));
  EXPECT_TRUE(accepts(shared, one + "\n" + other));
  EXPECT_FALSE(accepts(shared, one + "\n" + other + "\n" + one));
  EXPECT_FALSE(accepts(shared, "<tool_call>\n{\"name\": \"weather\", \"arguments\": {}}\n</tool_call>"));
  EXPECT_EQ(GrammarMatcher(shared).forced(100), "<tool_call>\n{\"name\": \"");
  EXPECT_THAT(error_of([] {
                compile_tool_calls({{"f", Json{{"not", 1}}}}, {});
              }),
              AllOf(HasSubstr("\"f\""), HasSubstr("#/not")));
}

// A call whose arguments are anything else is none to those that read calls.
TEST(GrammarToolCalls, ArgumentsAreAnObjectWhateverTheSchemaTakes) {
  const auto call = [](const std::string& arguments) {
    return "<tool_call>\n{\"name\": \"f\", \"arguments\": " + arguments + "}\n</tool_call>";
  };
  for (const char* schema :
       {"{}", "true", R"({"description": "?"})", R"({"type": ["string", "object"]})",
        R"({"minLength": 2, "minItems": 1})", R"({"anyOf": [{"type": "string"}, {"type": "object"}, true]})",
        R"({"not": {"type": "string"}})",
        R"({"$ref": "#/$defs/any", "$defs": {"any": {"type": ["object", "array"]}}})"}) {
    const auto shared = over_tokens(compile_tool_calls({{"f", parse_json(schema, "schema")}}, {}));
    for (const char* object : {"{}", R"({"a": [1, {}]})"}) EXPECT_TRUE(accepts(shared, call(object))) << schema;
    for (const char* other : {"\"text\"", "[]", "[{}]", "1", "null", "true"}) {
      EXPECT_FALSE(accepts(shared, call(other))) << schema << " " << other;
    }
  }
  // Only what stands for the arguments themselves.
  const auto nested = over_tokens(compile_tool_calls(
      {{"f",
        parse_json(R"({"properties": {"a": {"$ref": "#"}}, "required": ["a"], "type": ["object", "integer"]})", "s")}},
      {}));
  EXPECT_TRUE(accepts(nested, call(R"({"a": {"a": 3}})")));
  EXPECT_FALSE(accepts(nested, call("3")));
  for (const char* schema : {R"({"type": "string"})", R"({"type": ["array", "null"]})", R"({"type": "objekt"})"}) {
    EXPECT_THAT(error_of([&] {
                  compile_tool_calls({{"f", parse_json(schema, "schema")}}, {});
                }),
                AllOf(HasSubstr("\"f\""), HasSubstr("arguments are an object; found")))
        << schema;
  }
  EXPECT_THAT(
      error_of([&] {
        over_tokens(compile_tool_calls({{"f", parse_json(R"({"anyOf": [{"type": "string"}]})", "schema")}}, {}));
      }),
      HasSubstr("no text satisfies it"));
}

TEST(GrammarToolCalls, StandInFreeText) {
  const Json number =
      parse_json(R"({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})", "schema");
  ToolCallOptions calls;
  calls.max_calls = 2;
  const auto shared = over_tokens(compile_text_with_calls({{"f", number}, {"free", nullptr}}, calls));
  const std::string call = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"n\": 12}}\n</tool_call>";
  const std::string free = "<tool_call>\n{\"name\": \"free\", \"arguments\": {\"a\": [\"<tool_call>\"]}}\n</tool_call>";
  const std::vector<std::string> allowed = {
      "",   "words, 1 < 2",  "<<tool<tool_call <t", "</tool_call>",
      call, "Wait. " + call, call + free,           call + "\nand <tool" + free + " Done <"};
  const std::vector<std::string> refused = {"<tool_call>",
                                            "a <tool_call> b",
                                            "<<tool_call>",
                                            "<tool<tool_call>x",
                                            "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>",
                                            call.substr(0, call.size() - 1),
                                            call + call + call};
  for (const std::string& text : allowed) EXPECT_TRUE(accepts(shared, text)) << text;
  for (const std::string& text : refused) EXPECT_FALSE(accepts(shared, text)) << text;
}

// Whatever text is let through, what is read as a call of it keeps to the schema.
TEST(GrammarToolCalls, BareOnes) {
  const Json number = Json::parse(R"({"properties": {"n": {"type": "integer"}}, "required": ["n"]})");
  const ToolCallOptions calls{CallForm::kBare};
  const std::string call = R"({"name": "f", "parameters": {"n": 1}})";
  EXPECT_TRUE(accepts(compile_tool_calls({{"f", number}}, calls), call));
  const auto shared = over_tokens(compile_text_with_calls({{"f", number}}, calls));
  for (const char* text : {"", " words {", "\n<|python", "<thin k>"}) EXPECT_TRUE(accepts(shared, text)) << text;
  const std::vector<std::string> pieces = {
      " ", "{", "<|python_tag|>", "<think>", "</think>", ";", call, R"({"name": "f", "parameters": {}})"};
  std::mt19937 random(3);
  int called = 0;
  for (int round = 0; round < 9000; ++round) {
    std::string text;
    for (size_t n = random() % 5; n > 0; --n) text += pieces[random() % pieces.size()];
    if (!accepts(shared, text)) continue;
    for (const auto& part : text::OutputParser({.bare = {"f"}}).push(text)) {
      if (part.call < 0 || part.text.empty()) continue;
      ASSERT_EQ(part.text, "{\"n\": 1}") << text;
      ++called;
    }
  }
  EXPECT_GT(called, 100);
}

TEST(GrammarToolCalls, TagsMayBeTokensThatAreNoText) {
  const TagTokens tags = {*tokenizer().token_id("<think>"), *tokenizer().token_id("</think>")};  // any two special ones
  ToolCallOptions calls;
  calls.tag_tokens = true;
  for (const bool demanded : {true, false}) {
    const std::vector<ToolSpec> tools = {{"f", nullptr}};
    Grammar grammar = demanded ? compile_tool_calls(tools, calls) : compile_text_with_calls(tools, calls);
    const auto shared = std::make_shared<TokenGrammar>(std::move(grammar), trie(), std::vector<int32_t>{eos()}, tags);
    GrammarMatcher matcher(shared);
    EXPECT_EQ(matcher.accept_bytes("words"), !demanded);
    EXPECT_THAT(ids_of(mask_of(matcher)), ::testing::Contains(tags.begins));
    EXPECT_THAT(ids_of(mask_of(matcher)), ::testing::Not(::testing::Contains(tags.ends)));
    ASSERT_TRUE(matcher.accept(tags.begins));
    EXPECT_EQ(matcher.forced(100), "\n{\"name\": \"f\", \"arguments\": {");
    ASSERT_TRUE(matcher.accept_bytes("\n{\"name\": \"f\", \"arguments\": {\"a\": \""));
    EXPECT_FALSE(matcher.accept(tags.begins));  // in a string
    ASSERT_TRUE(matcher.accept_bytes("<tool_call>\"}}\n"));
    EXPECT_THAT(ids_of(mask_of(matcher)), ::testing::Contains(tags.ends));
    ASSERT_TRUE(matcher.accept(tags.ends));
    EXPECT_TRUE(matcher.can_end());
    EXPECT_FALSE(matcher.accept(tags.begins));  // one call is enough
  }
}

TEST(GrammarMatcher, MatchersOfOneGrammarShareStatesAcrossThreads) {
  const auto shared = over_tokens(compile_json_object());
  std::vector<std::thread> threads;
  std::atomic<int32_t> right = 0;
  for (int32_t i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      GrammarMatcher matcher(shared);
      bool ok = true;
      for (const int32_t id : tokenizer().encode("{\"a\": [1, 2, {\"b\": \"c d e\"}], \"z\": null}")) {
        const std::vector<int32_t> ids = ids_of(mask_of(matcher));
        ok = ok && std::find(ids.begin(), ids.end(), id) != ids.end() && matcher.accept(id);
      }
      if (ok && matcher.finished()) ++right;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 4);
}

}  // namespace
}  // namespace ashlar::grammar::testing
