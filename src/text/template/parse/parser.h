// SPDX-License-Identifier: Apache-2.0
#pragma once
// Recursive descent over the token list, with Jinja's grammar and precedences. Statements are in
// parse_statement.cc, expressions in parse_expression.cc.

#include <string>
#include <string_view>
#include <vector>

#include "text/template/parse/ast.h"
#include "text/template/parse/lexer.h"

namespace ashlar::tmpl {

/// Bound on nesting in the source and on the height of the tree.
inline constexpr int kMaxTreeHeight = 250;

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)), budget_(RenderLimits{}) {}

  /// The whole template. Throws LocatedFailure.
  Body parse();

 private:
  /// One level of recursion, refused beyond kMaxTreeHeight.
  class Level {
   public:
    explicit Level(Parser& parser);
    ~Level() { --parser_.level_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Parser& parser_;
  };

  // The token stream.
  const Token& current() const { return tokens_[at_]; }
  const Token& look() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  const Token& next();
  bool is(TokenType type) const { return current().type == type; }
  bool is_name(std::string_view name) const { return is(TokenType::kName) && current().text == name; }
  bool is_op(std::string_view op) const { return is(TokenType::kOperator) && current().text == op; }
  bool skip_name(std::string_view name);
  bool skip_op(std::string_view op);
  const Token& expect(TokenType type, std::string_view what);
  void expect_op(std::string_view op);
  [[noreturn]] void error(const std::string& message) const;
  [[noreturn]] void unexpected(std::string_view expected) const;

  // Statements.
  Body parse_until(const std::vector<std::string_view>& ends, std::string_view opener);
  /// The body of a tag up to one of `ends`, whose name is consumed and returned in `end`.
  Body parse_body(const std::vector<std::string_view>& ends, std::string_view opener, std::string* end = nullptr);
  Body parse_scoped_body(const std::vector<std::string_view>& ends, std::string_view opener,
                         std::string* end = nullptr);
  Stmt parse_statement();
  Stmt parse_if(int line);
  Stmt parse_for(int line);
  Stmt parse_set(int line);
  Stmt parse_macro(int line);
  Stmt parse_call_block(int line);
  Stmt parse_filter_block(int line);
  Stmt parse_with(int line);
  Stmt parse_block(int line);
  Stmt parse_generation(int line);
  Stmt parse_loop_control(int line, bool is_break);
  void parse_signature(MacroDefinition& macro);
  void parse_macro_body(MacroDefinition& macro, std::string_view end, std::string_view opener);
  Target parse_target(bool with_namespace);
  Target parse_target_item(bool with_namespace);
  std::string parse_plain_name();

  // Expressions.
  ExprPtr make(ExprKind kind, int line) const;
  /// Makes `kid` the next kid of `parent` (null allowed).
  void adopt(Expr& parent, ExprPtr kid) const;
  void raise_height(Expr& parent, const ExprPtr& kid) const;
  ExprPtr parse_tuple(bool with_condition, bool parenthesised = false, std::string_view end_name = "");
  ExprPtr parse_expression(bool with_condition = true);
  ExprPtr parse_condition();
  ExprPtr parse_or();
  ExprPtr parse_and();
  ExprPtr parse_not();
  ExprPtr parse_compare();
  bool parse_compare_op(CompareOp& op);
  ExprPtr parse_sum();
  ExprPtr parse_concat();
  ExprPtr parse_product();
  ExprPtr parse_power();
  ExprPtr parse_unary(bool with_filter);
  ExprPtr parse_postfix(ExprPtr node);
  ExprPtr parse_filters_and_tests(ExprPtr node);
  ExprPtr parse_filter(ExprPtr input);
  ExprPtr parse_filter_chain(ExprPtr input);
  ExprPtr parse_test(ExprPtr input);
  ExprPtr parse_primary();
  ExprPtr parse_number();
  ExprPtr parse_name();
  ExprPtr parse_list();
  ExprPtr parse_dict();
  ExprPtr parse_subscript(ExprPtr object);
  ExprPtr parse_subscripted();
  ExprPtr parse_call(ExprPtr callee);
  void parse_arguments(Expr& call);
  std::string parse_dotted_name();

  /// Fails on the first unknown filter or test read since `mark` that is not under a condition.
  void check_known(std::size_t mark);

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int level_ = 0;
  int loop_depth_ = 0;
  Budget budget_;
  std::vector<MacroDefinition*> open_macros_;
  std::vector<std::pair<int, std::string>> unknown_;  // line and message
  std::vector<std::string> block_names_;
};

}  // namespace ashlar::tmpl
