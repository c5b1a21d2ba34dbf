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
