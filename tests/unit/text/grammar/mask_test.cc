// SPDX-License-Identifier: Apache-2.0
// A mask holds exactly the tokens whose bytes, taken one by one, the grammar takes in.

#include <gtest/gtest.h>

#include "io/json.h"
#include "unit/text/grammar/support.h"

namespace ashlar::grammar::testing {
namespace {

// By copies of the matcher, without trie or cache of masks.
std::vector<uint32_t> naive_mask(const GrammarMatcher& matcher) {
  std::vector<uint32_t> mask((trie()->vocab() + 31) / 32);
  for (int32_t id = 0; id < tokenizer().vocab_size(); ++id) {
    bool allowed = false;
    if (id == eos()) {
      allowed = matcher.can_end();
    } else if (!tokenizer().is_special(id) && !tokenizer().piece_bytes(id).empty()) {
      GrammarMatcher copy = matcher;
      allowed = true;
      for (const char byte : tokenizer().piece_bytes(id)) allowed = allowed && copy.accept_bytes({&byte, 1});
    }
    if (allowed) mask[id / 32] |= 1U << (id % 32);
  }
  return mask;
}

std::vector<Grammar> grammars() {
  std::vector<Grammar> all;
  all.push_back(compile_json_object());
  all.push_back(compile_regex("(a|b)*a(a|b){6}|[\\u4e00-\\u9fff]{2,5}|\\w+ \\w+"));
  all.push_back(
      compile_ebnf("root ::= item (\", \" item)*  item ::= [a-z]+ | \"(\" root \")\" | \"\\\"\" [^\"]* \"\\\"\""));
  all.push_back(compile_choice({"yes", "no", "yesterday", "日本", "not at all"}));
  all.push_back(compile_json_schema(parse_json(R"({"type": "object", "properties": {"name": {"type": "string",
      "minLength": 2, "maxLength": 9}, "size": {"type": "integer", "minimum": -12, "maximum": 1234}, "when": {"type":
      "string", "format": "date"}, "next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}, "required": ["size"],
      "additionalProperties": {"type": "number"}})",
                                               "schema")));
  ToolCallOptions calls;
  calls.max_calls = 3;
  all.push_back(compile_tool_calls({{"search", nullptr}, {"send", Json::parse(R"({"type": "object"})")}}, calls));
  all.push_back(compile_text_with_calls({{"search", nullptr}}, calls));
  all.push_back(compile_text_with_calls({{"search", nullptr}}, {CallForm::kBare}));
  return all;
}

TEST(GrammarMask, EqualsTheNaiveDefinitionWhileTheAnswerMayOpenItsThinking) {
  for (const char* beginning : {"", "<", "<t", "<th", "<thin", "<think", "{", "y"}) {
    GrammarMatcher matcher(over_tokens(compile_choice({"<th>", "yes", "{\"a\": 1}"})), {-1, "</think>", "<think>"});
    ASSERT_TRUE(matcher.accept_bytes(beginning));
    EXPECT_EQ(mask_of(matcher), naive_mask(matcher)) << beginning;
  }
}

TEST(GrammarMask, EqualsTheNaiveDefinitionOnRandomWalks) {
  std::mt19937_64 random(3);
  int32_t states = 0;
  for (Grammar& grammar : grammars()) {
    const auto shared = over_tokens(std::move(grammar));
    for (int32_t walk = 0; walk < 4; ++walk) {
      GrammarMatcher matcher(shared);
      for (int32_t step = 0; step < 12 && !matcher.finished(); ++step) {
        const std::vector<uint32_t> mask = mask_of(matcher);
        ASSERT_EQ(mask, naive_mask(matcher));
        ++states;
        const std::vector<int32_t> ids = ids_of(mask);
        ASSERT_FALSE(ids.empty());
        const GrammarMatcher before = matcher;
        const int32_t token = ids[random() % ids.size()];
        ASSERT_TRUE(matcher.accept(token));
        GrammarMatcher bytewise = before;  // a token is its bytes
        if (token != eos()) {
          ASSERT_TRUE(bytewise.accept_bytes(tokenizer().piece_bytes(token)));
          ASSERT_EQ(mask_of(bytewise), mask_of(matcher));
        }
      }
    }
  }
  EXPECT_GT(states, 100);
}

// However the work is cut, and in whatever graphs of its states it goes on, a mask and its cost are the same.
TEST(GrammarMask, ASlicedMaskIsTheWholeOne) {
  std::mt19937_64 random(11);
  int32_t pieces = 0;
  const std::vector<Grammar> all = grammars();
  for (size_t walk = 0; walk < 4 * all.size(); ++walk) {
    const Grammar& grammar = all[walk % all.size()];
    StateGraph whole(grammar);
    StateGraph::State state = whole.start();
    auto sliced = std::make_unique<StateGraph>(grammar);
    StateGraph::State same = sliced->start();
    for (int32_t step = 0; step < 12 && whole.next_bytes(state).any(); ++step) {
      uint64_t cost = 0;
      const std::vector<uint32_t> expected = *whole.find_mask(state, *trie(), UINT64_MAX, &cost);
      uint64_t spent = 0;
      const uint64_t most = 500 + random() % 500;
      const std::vector<uint32_t>* found = nullptr;
      while ((found = sliced->find_mask(same, *trie(), most + sliced->width(same), &spent)) == nullptr) {
        ASSERT_LE(spent, cost);
        ++pieces;
        if (random() % 4 != 0) continue;
        auto other = std::make_unique<StateGraph>(grammar);
        same = sliced->carry_to(same, *trie(), *other);
        sliced = std::move(other);
      }
      ASSERT_EQ(*found, expected);
      ASSERT_EQ(spent, cost);
      const ByteSet next = whole.next_bytes(state);
      uint8_t byte = 0;
      do byte = static_cast<uint8_t>(random());
      while (!next.test(byte));
      state = whole.step(state, byte);
      same = sliced->step(same, byte);
    }
  }
  EXPECT_GT(pieces, 10);
}

// Tokens of an answer of at most 20 until the matcher gives up, each at a place among those allowed that depends on
// those before.
size_t tokens_within(GrammarMatcher& matcher, uint64_t slice) {
  for (size_t n = 0;; ++n) {
    while (!matcher.prepare(slice)) {
    }
    if (n == 20 || !matcher.problem().empty()) return n;
    const std::vector<int32_t> ids = ids_of(mask_of(matcher));
    matcher.accept_later(ids[(n * 7919 + 13) % (ids.size() / 2)]);
  }
}

// Whether an answer is too much depends on its tokens alone.
TEST(GrammarMask, TheBudgetEndsAnAnswerAtTheSameTokenWhateverIsKnown) {
  std::string pattern;
  for (char c = 'a'; c <= 'z'; ++c) {
    for (char d = 'a'; d <= 'c'; ++d) pattern += (pattern.empty() ? "" : "|") + std::string(".*") + c + ".*" + d + "z";
  }
  const auto fresh = [&] { return over_tokens(compile_regex(pattern)); };
  GrammarMatcher whole(fresh(), {}, uint64_t{1} << 40);
  ASSERT_EQ(tokens_within(whole, UINT64_MAX), 20U);
  ASSERT_GT(whole.work(), uint64_t{1} << 20);  // many slices
  const auto shared = fresh();
  for (const uint64_t share : {1, 2, 5}) {  // of the whole answer's work, in sixths
    const uint64_t budget = whole.work() * share / 6;
    GrammarMatcher alone(fresh(), {}, budget);
    const size_t expected = tokens_within(alone, UINT64_MAX);
    EXPECT_LT(expected, 20U);
    for (const uint64_t slice : {uint64_t{1} << 15, uint64_t{1} << 17}) {
      GrammarMatcher sliced(fresh(), {}, budget);
      EXPECT_EQ(tokens_within(sliced, slice), expected);
      EXPECT_EQ(sliced.problem(), alone.problem());
      GrammarMatcher knowing(shared, {}, budget);
      EXPECT_EQ(tokens_within(knowing, slice), expected);
    }
  }
}

TEST(GrammarMask, NoStateIsADeadEndEvenAtTheDepthLimit) {
  // Only opening brackets where possible: the automaton must stop opening while it can still close everything.
  const auto shared =
      over_tokens(compile_ebnf("root ::= \"[\" root \"]\" | \"x\" | \"{\" root \"}\" tail  tail ::= \"!\""));
  GrammarMatcher matcher(shared);
  size_t depth = 0;
  while (matcher.accept_bytes("{")) ++depth;
  EXPECT_GT(depth, 200U);
  EXPECT_LE(depth, Grammar::kMaxFrames);
  EXPECT_FALSE(matcher.dead());
  ASSERT_TRUE(matcher.accept_bytes("x"));
  for (; depth > 0; --depth) ASSERT_TRUE(matcher.accept_bytes("}!")) << depth;
  EXPECT_TRUE(matcher.finished());
}

TEST(GrammarMask, AMaskShorterOrLongerThanTheVocabularyIsHandled) {
  GrammarMatcher matcher(over_tokens(compile_regex("[a-z]*")));
  const std::vector<uint32_t> whole = mask_of(matcher);
  std::vector<uint32_t> mask(whole.size() + 3, 7);
  matcher.allowed(mask);
  EXPECT_TRUE(std::equal(whole.begin(), whole.end(), mask.begin()));
  EXPECT_EQ(ids_of(mask), ids_of(whole));
  mask.assign(5, 7);
  matcher.allowed(mask);
  EXPECT_TRUE(std::equal(mask.begin(), mask.end(), whole.begin()));
}

TEST(GrammarMask, AVocabularyWithoutTheBytesNeededIsDead) {
  const std::vector<std::string> pieces = {"a", "b", "ab"};
  const auto small = std::make_shared<const TokenTrie>(pieces);
  const auto shared = std::make_shared<TokenGrammar>(compile_regex("abc"), small, std::vector<int32_t>{7});
  GrammarMatcher matcher(shared);
  EXPECT_FALSE(matcher.dead());
  ASSERT_TRUE(matcher.accept(2));
  EXPECT_TRUE(matcher.dead());
}

// <0x22> stands for a quote, not for six characters.
TEST(GrammarMask, ByteTokensAreTheBytesThatTheyStandFor) {
  const Tokenizer fallback =
      Tokenizer::from_file(std::filesystem::path(ASHLAR_TEST_DATA) / "tokenizer" / "byte_fallback.json");
  const auto bytes = std::make_shared<const TokenTrie>(fallback);
  const auto id_of = [&](const char* content) { return *fallback.token_id(content); };
  EXPECT_EQ(fallback.piece_bytes(id_of("<0x22>")), "\"");
  EXPECT_EQ(fallback.piece_bytes(id_of("<0xF0>")), "\xF0");
  EXPECT_EQ(fallback.piece_bytes(id_of("<0x00>")), std::string_view("\0", 1));
  const auto shared = std::make_shared<TokenGrammar>(compile_json_schema(Json{{"type", "string"}}), bytes,
                                                     std::vector<int32_t>{fallback.vocab_size()});
  GrammarMatcher matcher(shared);
  ASSERT_TRUE(matcher.accept_bytes("\""));
  const auto allows = [&](const char* content) {
    GrammarMatcher copy = matcher;
    std::vector<uint32_t> mask((bytes->vocab() + 31) / 32);
    copy.allowed(mask);
    const int32_t id = id_of(content);
    return (mask[id / 32] >> (id % 32) & 1) != 0;
  };
  EXPECT_FALSE(allows("<0x0A>"));
  EXPECT_TRUE(allows("<0xF0>"));
  EXPECT_FALSE(allows("<0x80>"));
  std::vector<int32_t> ids;
  for (const char* token : {"<0xF0>", "<0x9F>", "<0x98>", "<0x80>"}) {
    ASSERT_TRUE(allows(token)) << token;
    EXPECT_FALSE(allows("<0x22>") && ids.size() % 4 != 0);
    ids.push_back(id_of(token));
    ASSERT_TRUE(matcher.accept(ids.back()));
  }
  ids.push_back(id_of("<0x22>"));
  ASSERT_TRUE(matcher.accept(ids.back()));
  EXPECT_TRUE(matcher.finished());
  EXPECT_EQ(fallback.decode(ids, true), "😀\"");
}

}  // namespace
}  // namespace ashlar::grammar::testing
