// SPDX-License-Identifier: Apache-2.0
// Inputs that are large, deep or ambiguous: a grammar or an error, soon, with a stack of the usual size; never a text
// lost without a word.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <string>

#include "base/error.h"
#include "io/json.h"
#include "text/grammar/builder.h"
#include "text/grammar/state_graph.h"
#include "text/tokenizer/utf8.h"
#include "unit/text/colliding_texts.h"
#include "unit/text/grammar/support.h"

namespace ashlar::grammar::testing {
namespace {

using ::testing::HasSubstr;

template <class Work>
double seconds(Work work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

TEST(GrammarSize, AChainOfQuantifiersIsRefused) {
  for (const char* chain : {"?", "*", "+", "?*", "{0,1}"}) {
    std::string text = "root ::= \"a\"";
    while (text.size() < 60000) text += chain;
    EXPECT_THAT(error_of([&] { compile_ebnf(text); }), HasSubstr("64 levels")) << chain;
  }
  EXPECT_TRUE(accepts(compile_ebnf("root ::= \"a\"?*+{0,2}"), "aaaaa"));
}

// Sets of bytes that std::hash takes for one.
TEST(GrammarSize, SetsOfBytesAreToldApartHoweverTheyWereChosen) {
  std::set<size_t> known, keyed;
  Builder builder;
  for (const auto& [first, second] : ashlar::test::colliding_blocks(4096, sizeof(ByteSet))) {
    const ByteSet set = (ByteSet(second) << 64) | ByteSet(first);
    known.insert(std::hash<ByteSet>()(set));
    keyed.insert(ByteSetHash()(set));
    builder.bytes(set);
  }
#if defined(__GLIBCXX__) && defined(__x86_64__)
  ASSERT_EQ(known.size(), 1U);
#endif
  EXPECT_EQ(keyed.size(), 4096U);
}

TEST(GrammarSize, ExpressionsNestOnlySoDeep) {
  Builder builder;
  Expr deep = builder.literal("a");
  EXPECT_THAT(error_of([&] {
                for (int32_t i = 0; i < 100000; ++i) deep = builder.sequence({deep, builder.empty()});
              }),
              HasSubstr("inside each other"));
}

TEST(GrammarSize, ALongListOfPlacesNestsNoDeeper) {
  Json schema = {{"type", "array"}, {"prefixItems", Json::array()}};
  for (int32_t i = 0; i < 15000; ++i) schema["prefixItems"].push_back(Json{{"type", "null"}});
  const auto shared = over_tokens(compile_json_schema(schema));
  EXPECT_TRUE(accepts(shared, "[]"));
  EXPECT_TRUE(accepts(shared, "[null, null]"));
  std::string all = "[null";
  for (int32_t i = 1; i < 15000; ++i) all += ",null";
  EXPECT_TRUE(accepts(shared, all + "]"));
  EXPECT_FALSE(accepts(shared, all + ",null]"));
}

TEST(GrammarSize, ALongNameInAnOpenObject) {
  const std::string name(30000, 'a');
  const Json schema = {{"type", "object"},
                       {"properties", {{name, {{"type", "null"}}}}},
                       {"additionalProperties", {{"type", "integer"}}}};
  const auto shared = over_tokens(compile_json_schema(schema));
  EXPECT_TRUE(accepts(shared, "{\"" + name + "\": null}"));
  EXPECT_FALSE(accepts(shared, "{\"" + name + "\": 1}"));
  EXPECT_TRUE(accepts(shared, "{\"" + name + "a\": 1}"));
  EXPECT_TRUE(accepts(shared, "{\"" + name.substr(1) + "\": 1}"));
  EXPECT_TRUE(accepts(shared, "{\"" + name.substr(64) + "b\": 1}"));
}

// Against the list of names itself, some of which begin others.
TEST(GrammarSize, OtherNamesAreAllButThese) {
  std::mt19937_64 random(11);
  const auto word = [&](size_t most) {
    std::string text;
    for (size_t n = random() % (most + 1); n > 0; --n) text += static_cast<char>('a' + random() % 2);
    return text;
  };
  for (int32_t round = 0; round < 20; ++round) {
    Json properties = Json::object();
    for (int32_t i = 0; i < 6; ++i) properties[word(5)] = {{"type", "null"}};
    const auto shared = over_tokens(compile_json_schema(
        Json{{"type", "object"}, {"properties", properties}, {"additionalProperties", {{"type", "integer"}}}}));
    for (int32_t i = 0; i < 60; ++i) {
      const std::string name = word(6);
      ASSERT_EQ(accepts(shared, "{\"" + name + "\": 1}"), !properties.contains(name)) << name << properties.dump();
    }
  }
}

TEST(GrammarSize, AClassOfManyCharactersIsReadSoon) {
  std::string members;
  for (uint32_t c = 0x3400; members.size() < 60000; c += 2) text::append_utf8(c, members);
  EXPECT_LT(seconds([&] { EXPECT_TRUE(accepts(compile_regex("[" + members + "]{2}"), "一丂")); }), 2.0);
}

// 1,500 characters that may each have begun one of 26 long tails: a state for each beginning of a token would take
// hundreds of MiB.
TEST(GrammarSize, AMaskOfWideStatesTakesLittleMemory) {
  std::string pattern = "[ -~]*(?:";
  for (char c = 'a'; c <= 'z'; ++c) pattern += (c == 'a' ? "" : "|") + std::string(1, c) + "[ -~]{3000}";
  const Grammar grammar = compile_regex(pattern + ")");
  StateGraph graph(grammar);
  StateGraph::State state = graph.start();
  for (int32_t i = 0; i < 1500; ++i) state = graph.step(state, static_cast<uint8_t>('a' + i % 26));
  EXPECT_GT(graph.width(state), 1000U);
  const std::vector<uint32_t> mask = *graph.find_mask(state, *trie(), UINT64_MAX, nullptr);
  EXPECT_LT(graph.bytes(), size_t{96} << 20);
  for (int32_t id = 0; id < trie()->vocab(); ++id) {
    const std::string_view bytes = trie()->bytes_of(id);
    const bool printable =
        !bytes.empty() && std::all_of(bytes.begin(), bytes.end(), [](char c) { return c >= ' ' && c <= '~'; });
    ASSERT_EQ((mask[id / 32] >> (id % 32) & 1) != 0, printable) << id;
  }
}

// 33,000 alternatives that begin alike.
std::string many_alternatives() {
  std::string pattern;
  for (int32_t i = 0; i < 33000; ++i) pattern += (i == 0 ? "" : "|") + std::string("a") + std::to_string(10000 + i);
  return "(?:" + pattern + ")";
}

// Whatever cannot be followed ends the answer and says why; a text is never refused in silence.
TEST(GrammarSize, WhatIsTooAmbiguousIsAProblemAndNotADeadEnd) {
  EXPECT_THAT(error_of([&] { over_tokens(compile_regex(many_alternatives())); }), HasSubstr("more than 32768 ways"));
  GrammarMatcher matcher(over_tokens(compile_regex("yyx" + many_alternatives())));
  ASSERT_TRUE(matcher.accept_bytes("yy"));
  EXPECT_EQ(matcher.forced(8), "");
  EXPECT_EQ(matcher.problem(), "");
  EXPECT_FALSE(matcher.accept_bytes("x"));
  EXPECT_THAT(matcher.problem(), HasSubstr("too ambiguous after 2 bytes of the answer: a text can be read in more"));
  EXPECT_TRUE(ids_of(mask_of(matcher)).empty());
  EXPECT_FALSE(matcher.can_end());
  EXPECT_FALSE(matcher.finished());
  EXPECT_FALSE(matcher.accept(eos()));
}

// The mask has to know what follows the tokens that it allows.
TEST(GrammarSize, AMaskThatCannotBeFoundIsAProblem) {
  GrammarMatcher matcher(over_tokens(compile_regex("(?:b|x" + many_alternatives() + ")")));
  EXPECT_TRUE(ids_of(mask_of(matcher)).empty());
  EXPECT_THAT(matcher.problem(), HasSubstr("too ambiguous after 0 bytes"));
}

TEST(GrammarSize, AmbiguityOfOneAnswerIsNoneOfAnothers) {
  const auto shared = over_tokens(compile_regex("c|x" + many_alternatives()));
  GrammarMatcher first(shared);
  first.accept_bytes("x");
  EXPECT_FALSE(first.problem().empty());
  EXPECT_TRUE(accepts(shared, "c"));
}

TEST(GrammarSize, ManyNamesInAnOpenObject) {
  Json schema = {{"type", "object"}, {"properties", Json::object()}, {"additionalProperties", {{"type", "integer"}}}};
  for (uint32_t c = 0x4E00; schema["properties"].size() < 5000; c += 2) {
    std::string name;
    text::append_utf8(c, name);
    schema["properties"][name] = {{"type", "null"}};
  }
  GrammarMatcher matcher(over_tokens(compile_json_schema(schema)));
  EXPECT_FALSE(ids_of(mask_of(matcher)).empty());
  EXPECT_TRUE(matcher.accept_bytes(R"({"一": null, "丁": 1})"));
  EXPECT_EQ(matcher.problem(), "");
  EXPECT_TRUE(matcher.finished());
}

}  // namespace
}  // namespace ashlar::grammar::testing
