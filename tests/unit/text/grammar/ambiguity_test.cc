// SPDX-License-Identifier: Apache-2.0
// Grammars whose texts can be read in many ways at once are followed exactly: stacks that share what they have in
// common against stacks of their own.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "io/json.h"
#include "text/grammar/state_graph.h"
#include "unit/text/grammar/support.h"

namespace ashlar::grammar::testing {
namespace {

// The definition: every node with every list of return nodes that the text can lead to. Lists have numbers, equal ones
// the same.
class PlainMatcher {
 public:
  explicit PlainMatcher(const Grammar& grammar) : grammar_(grammar) { visit(grammar.start(), kEmpty); }

  bool read(uint8_t byte) {
    const std::set<Config> before = std::exchange(waiting_, {});
    seen_.clear();
    accepting_ = false;
    for (const Config& config : before) {
      const Grammar::Node& node = grammar_.node(config.first);
      if (grammar_.byte_class(node.a).test(byte)) visit(node.b, config.second);
    }
    return accepting_ || !waiting_.empty();
  }
  bool accepting() const { return accepting_; }
  bool too_many() const { return seen_.size() > 20000; }
  ByteSet next_bytes() const {
    ByteSet set;
    for (const Config& config : waiting_) set |= grammar_.byte_class(grammar_.node(config.first).a);
    return set;
  }

 private:
  using Config = std::pair<uint32_t, size_t>;  // a node, the number of a list
  struct Returns {
    uint32_t last;
    size_t others;  // the number of the list without the last
    size_t size;
  };
  static constexpr size_t kEmpty = 0;

  size_t with(size_t stack, uint32_t last) {
    const auto [it, is_new] = numbers_.try_emplace({last, stack}, stacks_.size());
    if (is_new) stacks_.push_back({last, stack, stacks_[stack].size + 1});
    return it->second;
  }

  void visit(uint32_t id, size_t stack) {
    if (too_many() || stacks_[stack].size + grammar_.need(id) > Grammar::kMaxFrames) return;
    if (!seen_.emplace(id, stack).second) return;
    const Grammar::Node& node = grammar_.node(id);
    if (node.kind == Grammar::Kind::kBytes) {
      waiting_.emplace(id, stack);
    } else if (node.kind == Grammar::Kind::kSplit) {
      for (uint32_t i = 0; i < node.b; ++i) visit(grammar_.alternative(node.a + i), stack);
    } else if (node.kind == Grammar::Kind::kCall) {
      visit(grammar_.rule_start(node.a), node.b == Grammar::kReturnNode ? stack : with(stack, node.b));
    } else if (stack == kEmpty) {
      accepting_ = true;
    } else {
      visit(stacks_[stack].last, stacks_[stack].others);
    }
  }

  const Grammar& grammar_;
  std::vector<Returns> stacks_ = {{}};
  std::map<Config, size_t> numbers_;
  std::set<Config> waiting_, seen_;
  bool accepting_ = false;
};

class RandomGrammar {
 public:
  explicit RandomGrammar(uint64_t seed) : random_(seed) {}

  std::optional<Grammar> next() {
    const size_t rules = 1 + random_() % 5;
    std::string text;
    for (size_t i = 0; i < rules; ++i) {
      text += (i == 0 ? "root" : "r" + std::to_string(i)) + " ::= " + alternatives(rules, 2) + "\n";
    }
    try {
      return compile_ebnf(text);
    } catch (const Error&) {  // left recursion, or no text at all
      return std::nullopt;
    }
  }

 private:
  std::string alternatives(size_t rules, int32_t depth) {
    std::string out;
    for (size_t n = 1 + random_() % 3; n > 0; --n) out += sequence(rules, depth) + (n > 1 ? " | " : "");
    return out;
  }
  std::string sequence(size_t rules, int32_t depth) {
    std::string out;
    for (size_t n = random_() % 4; n > 0; --n) out += atom(rules, depth) + " ";
    return out;
  }
  std::string atom(size_t rules, int32_t depth) {
    static constexpr const char* kQuantifiers[] = {"", "", "", "", "*", "?", "+", "{0,2}", "{2}"};
    const size_t kind = random_() % 10;
    std::string out = "\"a\"";
    if (kind < 2) {
      out = "\"b\"";
    } else if (kind == 2) {
      out = "[ab]";
    } else if (kind < 7) {
      const size_t rule = random_() % rules;
      out = rule == 0 ? "root" : "r" + std::to_string(rule);
    } else if (kind == 7 && depth > 0) {
      out = "(" + alternatives(rules, depth - 1) + ")";
    }
    return out + kQuantifiers[random_() % 9];
  }
  std::mt19937_64 random_;
};

TEST(GrammarAmbiguity, SharedStacksAllowWhatStacksOfTheirOwnDo) {
  RandomGrammar source(17);
  std::mt19937_64 random(18);
  int32_t grammars = 0;
  int32_t states = 0;
  for (int32_t round = 0; round < 6000; ++round) {
    const std::optional<Grammar> grammar = source.next();
    if (!grammar) continue;
    ++grammars;
    StateGraph graph(*grammar);
    for (int32_t walk = 0; walk < 4; ++walk) {
      PlainMatcher plain(*grammar);
      StateGraph::State state = graph.start();
      StateGraph other(*grammar);
      for (int32_t step = 0; step < 12 && !plain.too_many(); ++step) {
        ASSERT_EQ(graph.accepting(state), plain.accepting());
        ASSERT_EQ(graph.next_bytes(state), plain.next_bytes());
        ++states;
        if (step == 6) state = graph.carry_to(state, *trie(), other);
        const auto byte = static_cast<uint8_t>('a' + random() % 2);
        StateGraph& in = step >= 6 ? other : graph;
        state = in.step(state, byte);
        const bool lives = plain.read(byte);
        if (plain.too_many()) break;
        ASSERT_EQ(state != StateGraph::kDead, lives);
        if (!lives) break;
        ASSERT_EQ(in.accepting(state), plain.accepting());
        ASSERT_EQ(in.next_bytes(state), plain.next_bytes());
        if (step >= 6) break;
      }
    }
  }
  EXPECT_GT(grammars, 1000);
  EXPECT_GT(states, 5000);
}

TEST(GrammarAmbiguity, ArithmeticWithSharedBeginnings) {
  const auto shared = over_tokens(compile_ebnf(R"EBNF(
      root ::= expr
      expr ::= term | term "+" expr | term "-" expr
      term ::= factor | factor "*" term | factor "/" term
      factor ::= [0-9]+ | "(" expr ")")EBNF"));
  const std::string deep = std::string(60, '(') + "1" + std::string(60, ')');
  for (const std::string& text :
       {std::string("1"), std::string("(((1)))"), std::string("((1+2)*(3-(4/5)))-6"), deep, "1+" + deep + "*" + deep}) {
    EXPECT_TRUE(accepts(shared, text)) << text;
  }
  for (const char* text : {"", "1+", "(((1))", "(1))", "1++2", "()"}) EXPECT_FALSE(accepts(shared, text)) << text;
  GrammarMatcher matcher(shared);
  ASSERT_TRUE(matcher.accept_bytes("((("));
  EXPECT_FALSE(ids_of(mask_of(matcher)).empty());
  EXPECT_EQ(matcher.problem(), "");
}

// The operator stands after the left operand, so that the alternatives are alike until that has ended.
TEST(GrammarAmbiguity, ATreeWhoseKindIsKnownLate) {
  Json expr = {{"anyOf", {{{"type", "number"}}}}};
  for (const char* op : {"+", "-", "*", "/"}) {
    expr["anyOf"].push_back(
        {{"type", "object"},
         {"properties", {{"left", {{"$ref", "#"}}}, {"op", {{"const", op}}}, {"right", {{"$ref", "#"}}}}},
         {"required", {"left", "op", "right"}}});
  }
  const auto shared = over_tokens(compile_json_schema(expr));
  std::string text = "1";
  for (int32_t i = 0; i < 20; ++i) {
    text = R"({"left":)" + text + R"(,"op":")" + "+-*/"[i % 4] + R"(","right":)" + std::to_string(i) + "}";
  }
  EXPECT_TRUE(accepts(shared, text));
  text[text.size() - 2] = '}';
  EXPECT_FALSE(accepts(shared, text));
  EXPECT_FALSE(accepts(shared, R"({"left":1,"op":"%","right":2})"));
}

TEST(GrammarAmbiguity, ManyOptionalPropertiesThatDependOnEachOther) {
  Json schema = {{"type", "object"}, {"properties", Json::object()}, {"dependentRequired", Json::object()}};
  for (int32_t i = 0; i < 8; ++i) {
    const std::string name = "p" + std::to_string(i);
    schema["properties"][name] = {{"type", "null"}};
    schema["dependentRequired"][name] = {"q" + std::to_string(i)};
  }
  for (int32_t i = 0; i < 8; ++i) schema["properties"]["q" + std::to_string(i)] = {{"type", "null"}};
  const auto shared = over_tokens(compile_json_schema(schema));
  EXPECT_TRUE(accepts(shared, "{}"));
  EXPECT_TRUE(accepts(shared, R"({"p3":null,"p5":null,"q1":null,"q3":null,"q5":null})"));
  EXPECT_FALSE(accepts(shared, R"({"p3":null,"p5":null,"q1":null,"q3":null})"));
}

TEST(GrammarAmbiguity, APatternThatMayBeginAnywhere) {
  const auto shared = over_tokens(compile_json_schema(Json{{"type", "string"}, {"pattern", "[a-z].{0,1000}bar"}}));
  const std::string filling(800, 'x');
  EXPECT_TRUE(accepts(shared, "\"" + filling + "bar" + filling + "\""));
  EXPECT_FALSE(accepts(shared, "\"" + filling + filling + "\""));
  EXPECT_FALSE(accepts(shared, "\"bar\""));
  GrammarMatcher matcher(shared);
  ASSERT_TRUE(matcher.accept_bytes("\"" + filling)) << matcher.problem();
}

}  // namespace
}  // namespace ashlar::grammar::testing
