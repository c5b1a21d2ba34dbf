// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/pattern/regex_grammar.h"

#include <vector>

#include "text/grammar/pattern/pattern_cursor.h"

namespace ashlar::grammar {
namespace {

class RegexParser {
 public:
  RegexParser(Builder& builder, std::string_view pattern, const CharWriter& write, const RegexOptions& options)
      : builder_(builder), in_(pattern, options.what, options.reading), write_(write), options_(options) {}

  Expr run() {
    const Expr expr = alternatives(0);
    if (!in_.at_end()) in_.fail("a ')' closes nothing");
    return expr;
  }

 private:
  Expr alternatives(int32_t depth) {
    builder_.check_nesting(depth, options_.what);
    std::vector<Expr> ways;
    do {
      ways.push_back(sequence(depth));
    } while (in_.take("|"));
    return builder_.alternatives(std::move(ways));
  }

  Expr anything() { return builder_.repeat(write_(CodePointSet::all()), 0, -1); }

  Expr sequence(int32_t depth) {
    std::vector<Expr> parts;
    bool from_start = false;
    bool to_end = false;
    while (depth == 0 && in_.take("^")) from_start = true;
    while (!in_.at_end() && in_.peek() != '|' && in_.peek() != ')') {
      if (depth == 0 && in_.take("$")) {
        to_end = true;
        if (!in_.at_end() && in_.peek() != '|' && in_.peek() != '$') in_.fail("'$' stands only at the end");
        continue;
      }
      parts.push_back(quantified(depth));
    }
    // Python's '$' also stands before a line break at the end.
    if (to_end && options_.reading == Reading::kWide) parts.push_back(builder_.optional(write_({{'\n', '\n'}})));
    if (depth == 0 && options_.search) {
      if (!from_start) parts.insert(parts.begin(), anything());
      if (!to_end) parts.push_back(anything());
    }
    return builder_.sequence(std::move(parts));
  }

  Expr quantified(int32_t depth) {
    Expr expr = atom(depth);
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
    in_.take("?");
    const char next = in_.peek();
    if (next == '*' || next == '+' || next == '?' || next == '{') in_.fail("a repetition of a repetition");
    return builder_.repeat(expr, min, max);
  }

  Expr atom(int32_t depth) {
    if (in_.take("(")) return group(depth);
    if (in_.take("[")) return write_(in_.char_class());
    if (in_.take("\\")) return write_(in_.escape(false));
    if (in_.take(".")) return write_(any_char().as(options_.reading));
    const char c = in_.peek();
    if (c == '^' || c == '$') in_.fail("'^' and '$' stand only at the ends of the pattern");
    if (c == '*' || c == '+' || c == '?' || c == '{')
      in_.fail("there is nothing to repeat; escape it if it is literal");
    const uint32_t code_point = in_.code_point();
    return write_({{code_point, code_point}});
  }

  Expr group(int32_t depth) {
    if (in_.take("?")) {
      if (in_.next_is("=") || in_.next_is("!") || in_.next_is("<=") || in_.next_is("<!")) {
        in_.fail("look-around is not supported");
      }
      if (in_.take("<") || in_.take("P<")) {
        while (!in_.take(">")) in_.code_point();
      } else if (!in_.take(":")) {
        in_.fail("this kind of group is not supported");
      }
    }
    const Expr inner = alternatives(depth + 1);
    in_.expect(")");
    return inner;
  }

  Builder& builder_;
  PatternCursor in_;
  const CharWriter& write_;
  const RegexOptions& options_;
};

}  // namespace

Expr regex_expression(Builder& builder, std::string_view pattern, const CharWriter& write,
                      const RegexOptions& options) {
  builder.check_input(pattern.size());
  return RegexParser(builder, pattern, write, options).run();
}

}  // namespace ashlar::grammar
