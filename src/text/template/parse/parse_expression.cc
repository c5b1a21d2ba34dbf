// SPDX-License-Identifier: Apache-2.0
#include <charconv>

#include "text/template/filters/filters.h"
#include "text/template/parse/parser.h"
#include "text/template/run/tests.h"

namespace ashlar::tmpl {

ExprPtr Parser::make(ExprKind kind, int line) const {
  auto node = std::make_unique<Expr>();
  node->kind = kind;
  node->line = line;
  return node;
}

void Parser::raise_height(Expr& parent, const ExprPtr& kid) const {
  if (kid == nullptr) return;
  if (kid->height >= kMaxTreeHeight)
    error("limit of " + std::to_string(kMaxTreeHeight) + " levels of nesting exceeded");
  parent.height = std::max(parent.height, kid->height + 1);
}

void Parser::adopt(Expr& parent, ExprPtr kid) const {
  raise_height(parent, kid);
  parent.kids.push_back(std::move(kid));
}

ExprPtr Parser::parse_tuple(bool with_condition, bool parenthesised, std::string_view end_name) {
  ExprPtr tuple = make(ExprKind::kTuple, current().line);
  bool commas = false;
  for (;;) {
    if (!tuple->kids.empty()) expect_op(",");
    if (is(TokenType::kVariableEnd) || is(TokenType::kBlockEnd) || is_op(")")) break;
    if (!end_name.empty() && is_name(end_name)) break;
    adopt(*tuple, parse_expression(with_condition));
    if (!is_op(",")) break;
    commas = true;
  }
  if (commas) return tuple;
  if (!tuple->kids.empty()) return std::move(tuple->kids.front());
  if (!parenthesised) unexpected("an expression");
  return tuple;
}

ExprPtr Parser::parse_expression(bool with_condition) {
  const Level level(*this);
  return with_condition ? parse_condition() : parse_or();
}

ExprPtr Parser::parse_condition() {
  const Level level(*this);
  const std::size_t mark = unknown_.size();
  ExprPtr value = parse_or();
  while (is_name("if")) {
    ExprPtr node = make(ExprKind::kCondition, next().line);
    adopt(*node, parse_or());
    adopt(*node, std::move(value));
    adopt(*node, skip_name("else") ? parse_condition() : nullptr);
    value = std::move(node);
    unknown_.resize(mark);
  }
  return value;
}

ExprPtr Parser::parse_or() {
  ExprPtr left = parse_and();
  while (is_name("or")) {
    ExprPtr node = make(ExprKind::kOr, next().line);
    adopt(*node, std::move(left));
    adopt(*node, parse_and());
    left = std::move(node);
  }
  return left;
}

ExprPtr Parser::parse_and() {
  ExprPtr left = parse_not();
  while (is_name("and")) {
    ExprPtr node = make(ExprKind::kAnd, next().line);
    adopt(*node, std::move(left));
    adopt(*node, parse_not());
    left = std::move(node);
  }
  return left;
}

ExprPtr Parser::parse_not() {
  if (!is_name("not")) return parse_compare();
  const Level level(*this);
  ExprPtr node = make(ExprKind::kNot, next().line);
  adopt(*node, parse_not());
  return node;
}

bool Parser::parse_compare_op(CompareOp& op) {
  static constexpr std::pair<std::string_view, CompareOp> kOps[] = {{"==", CompareOp::kEq}, {"!=", CompareOp::kNe},
                                                                    {"<", CompareOp::kLt},  {"<=", CompareOp::kLe},
                                                                    {">", CompareOp::kGt},  {">=", CompareOp::kGe}};
  for (const auto& [sign, value] : kOps) {
    if (!is_op(sign)) continue;
    op = value;
    next();
    return true;
  }
  op = is_name("not") ? CompareOp::kNotIn : CompareOp::kIn;
  if (is_name("not") && look().type == TokenType::kName && look().text == "in") next();
  return skip_name("in");
}

ExprPtr Parser::parse_compare() {
  ExprPtr first = parse_sum();
  const int line = current().line;
  CompareOp op{};
  if (!parse_compare_op(op)) return first;
  ExprPtr node = make(ExprKind::kCompare, line);
  adopt(*node, std::move(first));
  do {
    node->compares.push_back(op);
    adopt(*node, parse_sum());
  } while (parse_compare_op(op));
  return node;
}

ExprPtr Parser::parse_sum() {
  ExprPtr left = parse_concat();
  while (is_op("+") || is_op("-")) {
    ExprPtr node = make(ExprKind::kBinary, current().line);
    node->binary = next().text == "+" ? BinaryOp::kAdd : BinaryOp::kSub;
    adopt(*node, std::move(left));
    adopt(*node, parse_concat());
    left = std::move(node);
  }
  return left;
}

ExprPtr Parser::parse_concat() {
  ExprPtr first = parse_product();
  if (!is_op("~")) return first;
  ExprPtr node = make(ExprKind::kConcat, current().line);
  adopt(*node, std::move(first));
  while (skip_op("~")) adopt(*node, parse_product());
  return node;
}

ExprPtr Parser::parse_product() {
  ExprPtr left = parse_power();
  while (is_op("*") || is_op("/") || is_op("//") || is_op("%")) {
    ExprPtr node = make(ExprKind::kBinary, current().line);
    const std::string& op = next().text;
    node->binary = op == "*"    ? BinaryOp::kMul
                   : op == "/"  ? BinaryOp::kDiv
                   : op == "//" ? BinaryOp::kFloorDiv
                                : BinaryOp::kMod;
    adopt(*node, std::move(left));
    adopt(*node, parse_power());
    left = std::move(node);
  }
  return left;
}

ExprPtr Parser::parse_power() {
  ExprPtr left = parse_unary(true);
  while (is_op("**")) {  // to the left, as Jinja has it
    ExprPtr node = make(ExprKind::kBinary, next().line);
    node->binary = BinaryOp::kPow;
    adopt(*node, std::move(left));
    adopt(*node, parse_unary(true));
    left = std::move(node);
  }
  return left;
}

ExprPtr Parser::parse_unary(bool with_filter) {
  const Level level(*this);
  ExprPtr node;
  if (is_op("-") || is_op("+")) {
    const Token& sign = next();
    node = make(sign.text == "-" ? ExprKind::kNegate : ExprKind::kPlus, sign.line);
    adopt(*node, parse_unary(false));
  } else {
    node = parse_primary();
  }
  node = parse_postfix(std::move(node));
  return with_filter ? parse_filters_and_tests(std::move(node)) : std::move(node);
}

ExprPtr Parser::parse_postfix(ExprPtr node) {
  for (;;) {
    if (is_op(".") || is_op("[")) {
      node = parse_subscript(std::move(node));
    } else if (is_op("(")) {
      node = parse_call(std::move(node));
    } else {
      return node;
    }
  }
}

ExprPtr Parser::parse_filters_and_tests(ExprPtr node) {
  for (;;) {
    if (skip_op("|")) {
      node = parse_filter(std::move(node));
    } else if (skip_name("is")) {
      node = parse_test(std::move(node));
    } else if (is_op("(")) {
      node = parse_call(std::move(node));
    } else {
      return node;
    }
  }
}

std::string Parser::parse_dotted_name() {
  std::string name = expect(TokenType::kName, "a name").text;
  while (skip_op(".")) name += "." + expect(TokenType::kName, "a name").text;
  return name;
}

/// The filter whose name is the current token.
ExprPtr Parser::parse_filter(ExprPtr input) {
  ExprPtr node = make(ExprKind::kFilter, current().line);
  node->name = parse_dotted_name();
  node->filter = find_filter(node->name);
  if (node->filter == nullptr) unknown_.emplace_back(node->line, "no filter named '" + node->name.substr(0, 40) + "'");
  adopt(*node, std::move(input));
  if (is_op("(")) parse_arguments(*node);
  return node;
}

ExprPtr Parser::parse_filter_chain(ExprPtr input) {
  while (skip_op("|")) input = parse_filter(std::move(input));
  return input;
}

ExprPtr Parser::parse_test(ExprPtr input) {
  const int line = current().line;
  const bool negated = skip_name("not");
  ExprPtr node = make(ExprKind::kTest, line);
  node->name = parse_dotted_name();
  node->test = find_test(node->name);
  if (node->test == nullptr) unknown_.emplace_back(line, "no test named '" + node->name.substr(0, 40) + "'");
  adopt(*node, std::move(input));
  const bool literal =
      is(TokenType::kString) || is(TokenType::kInteger) || is(TokenType::kFloat) || is_op("[") || is_op("{");
  if (is_op("(")) {
    parse_arguments(*node);
  } else if (is_name("is")) {
    error("tests cannot be chained with 'is'");
  } else if (literal || (is(TokenType::kName) && !is_name("else") && !is_name("or") && !is_name("and"))) {
    ExprPtr argument = parse_postfix(parse_primary());
    raise_height(*node, argument);
    node->arguments.positional.push_back(std::move(argument));
  }
  if (!negated) return node;
  ExprPtr inverse = make(ExprKind::kNot, line);
  adopt(*inverse, std::move(node));
  return inverse;
}

}  // namespace ashlar::tmpl
