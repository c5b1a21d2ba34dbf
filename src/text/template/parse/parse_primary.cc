// SPDX-License-Identifier: Apache-2.0
// What operators connect: names, numbers, lists, and what stands in brackets after them.

#include <charconv>

#include "text/template/parse/parser.h"

namespace ashlar::tmpl {

ExprPtr Parser::parse_primary() {
  const Level level(*this);
  const int line = current().line;
  switch (current().type) {
    case TokenType::kName:
      return parse_name();
    case TokenType::kInteger:
    case TokenType::kFloat:
      return parse_number();
    case TokenType::kString: {
      std::string text = next().text;
      while (is(TokenType::kString)) text += next().text;
      ExprPtr node = make(ExprKind::kConstant, line);
      node->value = make_string(budget_, std::move(text), Origin::kTemplate);
      return node;
    }
    default:
      break;
  }
  if (is_op("[")) return parse_list();
  if (is_op("{")) return parse_dict();
  if (!skip_op("(")) unexpected("an expression");
  ExprPtr node = parse_tuple(true, true);
  expect_op(")");
  return node;
}

ExprPtr Parser::parse_name() {
  const Token& token = next();
  ExprPtr node = make(ExprKind::kConstant, token.line);
  if (token.text == "true" || token.text == "True") {
    node->value = Value(true);
  } else if (token.text == "false" || token.text == "False") {
    node->value = Value(false);
  } else if (token.text != "none" && token.text != "None") {
    node->kind = ExprKind::kName;
    node->name = token.text;
    for (MacroDefinition* macro : open_macros_) {
      macro->uses_caller |= token.text == "caller";
      macro->uses_varargs |= token.text == "varargs";
      macro->uses_kwargs |= token.text == "kwargs";
    }
  }
  return node;
}

ExprPtr Parser::parse_number() {
  const Token& token = next();
  ExprPtr node = make(ExprKind::kConstant, token.line);
  const char* first = token.text.data();
  const char* last = first + token.text.size();
  if (token.type == TokenType::kFloat) {
    double value = 0;
    const auto parsed = std::from_chars(first, last, value);
    if (parsed.ec != std::errc{} || parsed.ptr != last)
      throw LocatedFailure(token.line, "number out of range: " + token.text.substr(0, 40));
    node->value = Value(value);
    return node;
  }
  int base = 10;
  if (token.text.size() > 2 && token.text[0] == '0') {
    const char mark = static_cast<char>(token.text[1] | 0x20);
    base = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 10;
  }
  std::int64_t value = 0;
  const auto parsed = std::from_chars(base == 10 ? first : first + 2, last, value, base);
  if (parsed.ec != std::errc{} || parsed.ptr != last)
    throw LocatedFailure(token.line, "integer does not fit 64 bits: " + token.text.substr(0, 40));
  node->value = Value(value);
  return node;
}

ExprPtr Parser::parse_list() {
  ExprPtr node = make(ExprKind::kList, next().line);
  while (!is_op("]")) {
    if (!node->kids.empty()) expect_op(",");
    if (is_op("]")) break;
    adopt(*node, parse_expression());
  }
  expect_op("]");
  return node;
}

ExprPtr Parser::parse_dict() {
  ExprPtr node = make(ExprKind::kDict, next().line);
  while (!is_op("}")) {
    if (!node->kids.empty()) expect_op(",");
    if (is_op("}")) break;
    adopt(*node, parse_expression());
    expect_op(":");
    adopt(*node, parse_expression());
  }
  expect_op("}");
  return node;
}

ExprPtr Parser::parse_subscript(ExprPtr object) {
  const int line = current().line;
  if (skip_op(".")) {
    if (is(TokenType::kInteger)) {
      ExprPtr node = make(ExprKind::kGetitem, line);
      adopt(*node, std::move(object));
      adopt(*node, parse_number());
      return node;
    }
    ExprPtr node = make(ExprKind::kGetattr, line);
    adopt(*node, std::move(object));
    node->name = expect(TokenType::kName, "a name or a number").text;
    return node;
  }
  expect_op("[");
  ExprPtr key = parse_subscripted();
  if (key->kind == ExprKind::kSlice) {
    raise_height(*key, object);
    key->kids.front() = std::move(object);
    expect_op("]");
    return key;
  }
  if (is_op(",")) {
    ExprPtr tuple = make(ExprKind::kTuple, line);
    adopt(*tuple, std::move(key));
    while (skip_op(",")) adopt(*tuple, parse_expression());
    key = std::move(tuple);
  }
  expect_op("]");
  ExprPtr node = make(ExprKind::kGetitem, line);
  adopt(*node, std::move(object));
  adopt(*node, std::move(key));
  return node;
}

/// What stands between [ and ]: an expression, or a slice whose object is still null.
ExprPtr Parser::parse_subscripted() {
  const int line = current().line;
  ExprPtr start = is_op(":") ? nullptr : parse_expression();
  if (!is_op(":")) return start;
  ExprPtr node = make(ExprKind::kSlice, line);
  node->kids.push_back(nullptr);
  adopt(*node, std::move(start));
  for (int i = 0; i < 2; ++i) {
    const bool given = skip_op(":") && !is_op("]") && !is_op(":");
    adopt(*node, given ? parse_expression() : nullptr);
  }
  return node;
}

ExprPtr Parser::parse_call(ExprPtr callee) {
  ExprPtr node = make(ExprKind::kCall, current().line);
  adopt(*node, std::move(callee));
  parse_arguments(*node);
  return node;
}

void Parser::parse_arguments(Expr& call) {
  CallArguments& arguments = call.arguments;
  const auto keep = [&](ExprPtr value) {
    raise_height(call, value);
    return value;
  };
  expect_op("(");
  for (bool first = true; !is_op(")"); first = false) {
    if (!first) expect_op(",");
    if (is_op(")")) break;
    if (arguments.double_star != nullptr) error("no argument may follow **");
    if (skip_op("**")) {
      arguments.double_star = keep(parse_expression());
    } else if (skip_op("*")) {
      if (arguments.star != nullptr) error("only one * argument is allowed");
      arguments.star = keep(parse_expression());
    } else if (is(TokenType::kName) && look().type == TokenType::kOperator && look().text == "=") {
      std::string name = next().text;
      next();
      for (const auto& [other, value] : arguments.named)
        if (other == name) error("keyword argument '" + name + "' given twice");
      arguments.named.emplace_back(std::move(name), keep(parse_expression()));
    } else {
      if (arguments.star != nullptr || !arguments.named.empty()) error("positional argument after keyword argument");
      arguments.positional.push_back(keep(parse_expression()));
    }
  }
  expect_op(")");
}

}  // namespace ashlar::tmpl
