// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "text/template/parse/parser.h"

namespace ashlar::tmpl {
namespace {

bool one_of(std::string_view name, const std::vector<std::string_view>& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_literal_name(std::string_view name) { return one_of(name, {"true", "True", "false", "False", "none", "None"}); }

}  // namespace

Parser::Level::Level(Parser& parser) : parser_(parser) {
  if (parser_.level_ >= kMaxTreeHeight)
    parser_.error("limit of " + std::to_string(kMaxTreeHeight) + " levels of nesting exceeded");
  ++parser_.level_;
}

Body Parser::parse() {
  Body body = parse_until({}, "");
  check_known(0);
  return body;
}

const Token& Parser::next() {
  const Token& token = tokens_[at_];
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool Parser::skip_name(std::string_view name) {
  if (!is_name(name)) return false;
  next();
  return true;
}

bool Parser::skip_op(std::string_view op) {
  if (!is_op(op)) return false;
  next();
  return true;
}

const Token& Parser::expect(TokenType type, std::string_view what) {
  if (!is(type)) unexpected(what);
  return next();
}

void Parser::expect_op(std::string_view op) {
  if (!skip_op(op)) unexpected("'" + std::string(op) + "'");
}

void Parser::error(const std::string& message) const { throw LocatedFailure(current().line, message); }

void Parser::unexpected(std::string_view expected) const {
  error("unexpected " + describe(current()) + ", expected " + std::string(expected));
}

void Parser::check_known(std::size_t mark) {
  if (unknown_.size() > mark) throw LocatedFailure(unknown_[mark].first, unknown_[mark].second);
}

Body Parser::parse_until(const std::vector<std::string_view>& ends, std::string_view opener) {
  const Level level(*this);
  const int start = at_ > 0 ? tokens_[at_ - 1].line : 1;  // of the tag's end, as good as its start
  Body body;
  while (!is(TokenType::kEnd)) {
    const Token& token = next();
    if (token.type == TokenType::kText) {
      body.push_back(Stmt{token.line, TextStmt{token.text}});
    } else if (token.type == TokenType::kVariableBegin) {
      const int line = current().line;
      ExprPtr value = parse_tuple(true);
      body.push_back(Stmt{line, OutputStmt{std::move(value)}});
      expect(TokenType::kVariableEnd, "'}}'");
    } else {  // a block: the lexer puts nothing else between texts
      if (is(TokenType::kName) && one_of(current().text, ends)) return body;
      body.push_back(parse_statement());
      expect(TokenType::kBlockEnd, "'%}'");
    }
  }
  if (!ends.empty())
    error("unexpected end of template: '" + std::string(opener) + "' of line " + std::to_string(start) +
          " is not closed, expected '" + std::string(ends.back()) + "'");
  return body;
}

Body Parser::parse_body(const std::vector<std::string_view>& ends, std::string_view opener, std::string* end) {
  skip_op(":");
  expect(TokenType::kBlockEnd, "'%}'");
  Body body = parse_until(ends, opener);
  const Token& token = next();
  if (end != nullptr) *end = token.text;
  return body;
}

/// A body that Jinja compiles as a scope of its own, where unknown filters are errors even inside an if.
Body Parser::parse_scoped_body(const std::vector<std::string_view>& ends, std::string_view opener, std::string* end) {
  const std::size_t mark = unknown_.size();
  Body body = parse_body(ends, opener, end);
  check_known(mark);
  return body;
}

Stmt Parser::parse_statement() {
  const int line = current().line;
  const std::string name = expect(TokenType::kName, "the name of a tag").text;
  if (name == "if") return parse_if(line);
  if (name == "for") return parse_for(line);
  if (name == "set") return parse_set(line);
  if (name == "macro") return parse_macro(line);
  if (name == "call") return parse_call_block(line);
  if (name == "filter") return parse_filter_block(line);
  if (name == "with") return parse_with(line);
  if (name == "block") return parse_block(line);
  if (name == "generation") return parse_generation(line);
  if (name == "break" || name == "continue") return parse_loop_control(line, name == "break");
  if (name == "print") {
    ExprPtr value = parse_expression();
    return Stmt{line, OutputStmt{std::move(value)}};
  }
  for (const std::string_view loader : {"include", "import", "from", "extends"})
    if (name == loader) throw LocatedFailure(line, "'" + name + "' is not supported: a chat template is one file");
  if (name == "autoescape") throw LocatedFailure(line, "'autoescape' is not supported");
  throw LocatedFailure(line, "unknown tag '" + name.substr(0, 40) + "'");
}

Stmt Parser::parse_if(int line) {
  const std::size_t mark = unknown_.size();
  IfStmt node;
  for (std::string end = "elif"; end == "elif";) {
    IfStmt::Branch branch;
    branch.condition = parse_tuple(false);
    branch.body = parse_body({"elif", "else", "endif"}, "if", &end);
    node.branches.push_back(std::move(branch));
    if (end == "else") node.branches.push_back({nullptr, parse_body({"endif"}, "else")});
  }
  unknown_.resize(mark);  // after a condition an unknown filter is an error only when it is reached
  return Stmt{line, std::move(node)};
}

Stmt Parser::parse_for(int line) {
  ForStmt node;
  node.target = parse_target(false);
  if (!skip_name("in")) unexpected("'in'");
  node.items = parse_tuple(false, false, "recursive");
  if (skip_name("if")) node.condition = parse_expression();
  node.recursive = skip_name("recursive");
  std::string end;
  ++loop_depth_;
  node.body = parse_scoped_body({"else", "endfor"}, "for", &end);
  --loop_depth_;
  if (end == "else") node.otherwise = parse_scoped_body({"endfor"}, "else");
  return Stmt{line, std::move(node)};
}

Stmt Parser::parse_set(int line) {
  Target target = parse_target(true);
  if (skip_op("=")) {
    ExprPtr value = parse_tuple(true);
    return Stmt{line, SetStmt{std::move(target), std::move(value)}};
  }
  SetBlockStmt node;
  node.target = std::move(target);
  node.filter = parse_filter_chain(nullptr);
  node.body = parse_scoped_body({"endset"}, "set");
  return Stmt{line, std::move(node)};
}

Stmt Parser::parse_macro(int line) {
  MacroStmt node;
  node.macro.name = parse_plain_name();
  parse_signature(node.macro);
  parse_macro_body(node.macro, "endmacro", "macro");
  return Stmt{line, std::move(node)};
}

Stmt Parser::parse_call_block(int line) {
  CallBlockStmt node;
  node.caller.name = "caller";
  if (is_op("(")) parse_signature(node.caller);
  node.call = parse_expression();
  if (node.call->kind != ExprKind::kCall) throw LocatedFailure(line, "expected a call after 'call'");
  parse_macro_body(node.caller, "endcall", "call");
  return Stmt{line, std::move(node)};
}

void Parser::parse_signature(MacroDefinition& macro) {
  expect_op("(");
  while (!is_op(")")) {
    if (!macro.parameters.empty()) expect_op(",");
    std::string name = parse_plain_name();
    if (one_of(name, {macro.parameters.begin(), macro.parameters.end()})) error("duplicate parameter '" + name + "'");
    if (skip_op("=")) {
      macro.defaults.push_back(parse_expression());
    } else if (!macro.defaults.empty()) {
      error("parameter without a default after one with a default");
    }
    macro.parameters.push_back(std::move(name));
  }
  expect_op(")");
}

void Parser::parse_macro_body(MacroDefinition& macro, std::string_view end, std::string_view opener) {
  const int outer_loops = std::exchange(loop_depth_, 0);  // break does not reach through a macro
  open_macros_.push_back(&macro);
  macro.body = parse_scoped_body({end}, opener);
  open_macros_.pop_back();
  loop_depth_ = outer_loops;
}

Stmt Parser::parse_filter_block(int line) {
  FilterBlockStmt node;
  node.filter = parse_filter_chain(parse_filter(nullptr));
  node.body = parse_scoped_body({"endfilter"}, "filter");
  return Stmt{line, std::move(node)};
}

Stmt Parser::parse_with(int line) {
  WithStmt node;
  while (!is(TokenType::kBlockEnd)) {
    if (!node.targets.empty()) expect_op(",");
    node.targets.push_back(parse_target_item(false));
    expect_op("=");
    node.values.push_back(parse_expression());
  }
  node.body = parse_scoped_body({"endwith"}, "with");
  return Stmt{line, std::move(node)};
}

Stmt Parser::parse_block(int line) {
  ScopeStmt node;
  const std::string name = parse_plain_name();
  if (one_of(name, {block_names_.begin(), block_names_.end()})) error("block '" + name + "' is defined twice");
  block_names_.push_back(name);
  node.sees_locals = skip_name("scoped");
  const int outer_loops = std::exchange(loop_depth_, 0);
  node.body = parse_scoped_body({"endblock"}, "block");
  loop_depth_ = outer_loops;
  skip_name(name);
  return Stmt{line, std::move(node)};
}

Stmt Parser::parse_generation(int line) {
  ScopeStmt node;
  const int outer_loops = std::exchange(loop_depth_, 0);
  node.body = parse_scoped_body({"endgeneration"}, "generation");
  loop_depth_ = outer_loops;
  return Stmt{line, std::move(node)};
}

Stmt Parser::parse_loop_control(int line, bool is_break) {
  if (loop_depth_ == 0) throw LocatedFailure(line, "'break' or 'continue' outside a loop");
  if (is_break) return Stmt{line, BreakStmt{}};
  return Stmt{line, ContinueStmt{}};
}

Target Parser::parse_target(bool with_namespace) {
  Target first = parse_target_item(with_namespace);
  if (!is_op(",")) return first;
  Target tuple;
  tuple.items.push_back(std::move(first));
  while (skip_op(",")) {
    if (!is(TokenType::kName) && !is_op("(")) break;  // a comma at the end
    if (is_name("in")) break;
    tuple.items.push_back(parse_target_item(with_namespace));
  }
  return tuple;
}

Target Parser::parse_target_item(bool with_namespace) {
  const Level level(*this);
  if (skip_op("(")) {
    Target inner = parse_target(false);
    expect_op(")");
    return inner;
  }
  Target target;
  target.name = parse_plain_name();
  if (with_namespace && skip_op(".")) target.attribute = expect(TokenType::kName, "an attribute name").text;
  return target;
}

std::string Parser::parse_plain_name() {
  const std::string name = expect(TokenType::kName, "a name").text;
  if (is_literal_name(name)) error("cannot assign to '" + name + "'");
  return name;
}

}  // namespace ashlar::tmpl
