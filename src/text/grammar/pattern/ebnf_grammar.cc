// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/pattern/ebnf_grammar.h"

#include <cctype>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "text/grammar/pattern/pattern_cursor.h"

namespace ashlar::grammar {
namespace {

constexpr std::string_view kWhat = "the grammar";

bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-'; }

class EbnfParser {
 public:
  EbnfParser(Builder& builder, std::string_view text) : builder_(builder), in_(text, kWhat) {}

  Expr run() {
    for (skip(); !in_.at_end(); skip()) {
      const std::string name = rule_name();
      if (name.empty()) in_.fail("expected a rule's name");
      skip();
      in_.expect("::=");
      const Rule rule = rule_of(name);
      if (defined_[name]) in_.fail("the rule \"" + name + "\" is defined twice");
      defined_[name] = true;
      builder_.define(rule, alternatives(0));
      if (!in_.at_end() && !rule_starts_here()) in_.fail("expected a rule or something that can stand in one");
    }
    for (const auto& [name, rule] : rules_) {
      if (!defined_[name]) throw Error("grammar", "the rule \"" + name + "\" is used but not defined");
    }
    const auto root = rules_.find("root");
    if (root == rules_.end()) throw Error("grammar", "there is no rule \"root\" to begin with");
    return builder_.call(root->second);
  }

 private:
  // White space and comments.
  void skip() {
    for (;;) {
      if (in_.take("#")) {
        while (!in_.at_end() && in_.peek() != '\n') in_.code_point();
      } else if (!in_.take(" ") && !in_.take("\n") && !in_.take("\t") && !in_.take("\r")) {
        return;
      }
    }
  }

  std::string rule_name() {
    std::string name;
    while (is_name(in_.peek())) name += static_cast<char>(in_.code_point());
    return name;
  }

  bool rule_starts_here() {
    const size_t place = in_.place();
    const bool named = !rule_name().empty();
    skip();
    const bool starts = named && in_.next_is("::=");
    in_.go_to(place);
    return starts;
  }

  Rule rule_of(const std::string& name) {
    const auto known = rules_.find(name);
    return known != rules_.end() ? known->second : rules_[name] = builder_.declare(name);
  }

  Expr alternatives(int32_t depth) {
    builder_.check_nesting(depth, kWhat);
    std::vector<Expr> ways;
    do {
      ways.push_back(sequence(depth));
    } while (in_.take("|"));
    return builder_.alternatives(std::move(ways));
  }

  Expr sequence(int32_t depth) {
    std::vector<Expr> parts;
    for (;;) {
      skip();
      const char c = in_.peek();
      if (c == '"' || c == '[' || c == '(' || c == '.' || (is_name(c) && !rule_starts_here())) {
        parts.push_back(quantified(depth));
      } else {
        return builder_.sequence(std::move(parts));
      }
    }
  }

  Expr quantified(int32_t depth) {
    Expr expr = atom(depth);
    for (int32_t quantifiers = 0;; ++quantifiers) {
      int64_t min = 1;
      int64_t max = 1;
      if (in_.take("*")) {
        min = 0, max = -1;
      } else if (in_.take("+")) {
        max = -1;
      } else if (in_.take("?")) {
        min = 0;
      } else if (in_.take("{")) {
        in_.counts(min, max);
      } else {
        return expr;
      }
      builder_.check_nesting(depth + quantifiers, kWhat);
      expr = builder_.repeat(expr, min, max);
    }
  }

  Expr atom(int32_t depth) {
    if (in_.take("\"")) return literal();
    if (in_.take("[")) return builder_.chars(in_.char_class());
    if (in_.take(".")) return builder_.chars(CodePointSet::all());
    if (in_.take("(")) {
      const Expr inner = alternatives(depth + 1);
      in_.expect(")");
      return inner;
    }
    return builder_.call(rule_of(rule_name()));
  }

  Expr literal() {
    std::vector<Expr> parts;
    while (!in_.take("\"")) {
      if (in_.take("\\")) {
        parts.push_back(builder_.chars(in_.escape(true)));
        continue;
      }
      const uint32_t c = in_.code_point();
      parts.push_back(builder_.chars({{c, c}}));
    }
    return builder_.sequence(std::move(parts));
  }

  Builder& builder_;
  PatternCursor in_;
  std::map<std::string, Rule> rules_;
  std::map<std::string, bool> defined_;
};

}  // namespace

Expr ebnf_expression(Builder& builder, std::string_view text) {
  builder.check_input(text.size());
  return EbnfParser(builder, text).run();
}

}  // namespace ashlar::grammar
