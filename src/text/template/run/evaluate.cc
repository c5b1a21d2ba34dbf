// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "text/template/run/access.h"
#include "text/template/run/globals.h"
#include "text/template/run/interpreter.h"
#include "text/template/values/dict.h"
#include "text/template/values/operators.h"
#include "text/template/values/print.h"
#include "text/template/values/text_ops.h"

namespace ashlar::tmpl {

Interpreter::Nested::Nested(Interpreter& interpreter) : interpreter_(interpreter) {
  if (interpreter_.depth_ >= interpreter_.budget_.limits().depth)
    fail("limit of " + std::to_string(interpreter_.budget_.limits().depth) + " nested evaluations exceeded");
  ++interpreter_.depth_;
}

Value Interpreter::evaluate(const Expr& expr, Scope& scope) {
  const Nested nested(*this);
  budget_.step();
  line_ = expr.line;
  switch (expr.kind) {
    case ExprKind::kConstant:
      return expr.value;
    case ExprKind::kName:
      return resolve(expr.name, scope);
    case ExprKind::kTuple:
    case ExprKind::kList:
      return evaluate_items(expr, scope);
    case ExprKind::kDict:
      return evaluate_dict(expr, scope);
    case ExprKind::kGetattr:
      return get_attribute(budget_, evaluate(*expr.kids[0], scope), expr.name);
    case ExprKind::kSlice:
      return evaluate_slice(expr, scope);
    case ExprKind::kCall:
      return evaluate_call(expr, scope);
    case ExprKind::kFilter:
      return evaluate_filter(expr, scope);
    case ExprKind::kTest:
      return evaluate_test(expr, scope);
    case ExprKind::kCompare:
      return evaluate_compare(expr, scope);
    case ExprKind::kConcat:
      return evaluate_concat(expr, scope);
    case ExprKind::kCondition:
      return evaluate_condition(expr, scope);
    default:
      return evaluate_operator(expr, scope);
  }
}

Value Interpreter::evaluate_operator(const Expr& expr, Scope& scope) {
  Value left = evaluate(*expr.kids[0], scope);
  switch (expr.kind) {
    case ExprKind::kNot:
      return Value(!left.truthy());
    case ExprKind::kNegate:
      return negate(left);
    case ExprKind::kPlus:
      return plus(left);
    case ExprKind::kAnd:
      return left.truthy() ? evaluate(*expr.kids[1], scope) : left;
    case ExprKind::kOr:
      return left.truthy() ? left : evaluate(*expr.kids[1], scope);
    default:
      break;
  }
  const Value right = evaluate(*expr.kids[1], scope);
  line_ = expr.line;
  return expr.kind == ExprKind::kGetitem ? get_item(budget_, left, right)
                                         : arithmetic(budget_, expr.binary, left, right);
}

Value Interpreter::evaluate_items(const Expr& expr, Scope& scope) {
  std::vector<Value> items;
  items.reserve(expr.kids.size());
  for (const ExprPtr& kid : expr.kids) items.push_back(evaluate(*kid, scope));
  return expr.kind == ExprKind::kList ? make_list(budget_, std::move(items)) : make_tuple(budget_, std::move(items));
}

Value Interpreter::evaluate_dict(const Expr& expr, Scope& scope) {
  Dict dict;
  for (std::size_t i = 0; i + 1 < expr.kids.size(); i += 2) {
    const Value key = evaluate(*expr.kids[i], scope);
    dict.set(budget_, key, evaluate(*expr.kids[i + 1], scope));
  }
  return make_dict(std::move(dict));
}

Value Interpreter::evaluate_slice(const Expr& expr, Scope& scope) {
  const Value object = evaluate(*expr.kids[0], scope);
  Value bounds[3];
  for (std::size_t i = 0; i < 3; ++i)
    if (expr.kids[i + 1] != nullptr) bounds[i] = evaluate(*expr.kids[i + 1], scope);
  return get_slice(budget_, object, bounds[0], bounds[1], bounds[2]);
}

Value Interpreter::evaluate_compare(const Expr& expr, Scope& scope) {
  Value left = evaluate(*expr.kids[0], scope);
  for (std::size_t i = 0; i < expr.compares.size(); ++i) {
    Value right = evaluate(*expr.kids[i + 1], scope);
    if (!compare(budget_, expr.compares[i], left, right)) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Value Interpreter::evaluate_concat(const Expr& expr, Scope& scope) {
  TextBuilder out(budget_);
  for (const ExprPtr& kid : expr.kids) {
    const Value text = to_str(budget_, evaluate(*kid, scope));
    budget_.work(text.as_string().size());
    out.put(text.as_text());
  }
  return make_string(budget_, out.take());
}

Value Interpreter::evaluate_condition(const Expr& expr, Scope& scope) {
  if (evaluate(*expr.kids[0], scope).truthy()) return evaluate(*expr.kids[1], scope);
  if (expr.kids[2] != nullptr) return evaluate(*expr.kids[2], scope);
  return Value::undefined("the inline if-expression on line " + std::to_string(expr.line) +
                          " was false and has no else");
}

Arguments Interpreter::evaluate_arguments(const CallArguments& arguments, Scope& scope) {
  Arguments out;
  for (const ExprPtr& expr : arguments.positional) out.positional.push_back(evaluate(*expr, scope));
  for (const auto& [name, expr] : arguments.named) out.named.emplace_back(name, evaluate(*expr, scope));
  if (arguments.star != nullptr)
    for (Value& value : iterate(budget_, evaluate(*arguments.star, scope))) out.positional.push_back(std::move(value));
  if (arguments.double_star == nullptr) return out;
  const Value extra = evaluate(*arguments.double_star, scope);
  if (!extra.is(Kind::kDict)) fail("argument after ** must be a mapping, not " + extra.type_name());
  for (const auto& [key, value] : extra.as_dict().entries) {
    if (!key.is(Kind::kString)) fail("keywords must be strings");
    if (out.find(key.as_string()) != nullptr) fail("multiple values for keyword argument '" + key.as_string() + "'");
    budget_.work(sizeof(Value) + key.as_string().size());
    out.names = std::max(out.names, key.as_text().origins.greatest());
    out.named.emplace_back(key.as_string(), value);
  }
  return out;
}

Value Interpreter::evaluate_call(const Expr& expr, Scope& scope) {
  const Value callee = evaluate(*expr.kids[0], scope);
  const Arguments arguments = evaluate_arguments(expr.arguments, scope);
  line_ = expr.line;
  return call(callee, arguments);
}

Value Interpreter::call(const Value& callee, const Arguments& arguments) {
  if (callee.is_undefined()) fail_undefined(callee);
  if (!callee.is(Kind::kObject) || !callee.as_object().callable())
    fail("'" + callee.type_name() + "' object is not callable");
  return callee.as_object().call(*this, arguments);
}

Value Interpreter::evaluate_filter(const Expr& expr, Scope& scope) {
  const ExprPtr& kid = expr.kids[0];
  const Value input = kid != nullptr ? evaluate(*kid, scope) : *block_input_;
  const Arguments arguments = evaluate_arguments(expr.arguments, scope);
  line_ = expr.line;
  if (expr.filter == nullptr) fail("no filter named '" + expr.name + "'");
  return expr.filter(*this, input, arguments);
}

Value Interpreter::evaluate_test(const Expr& expr, Scope& scope) {
  const Value input = evaluate(*expr.kids[0], scope);
  const Arguments arguments = evaluate_arguments(expr.arguments, scope);
  line_ = expr.line;
  if (expr.test == nullptr) fail("no test named '" + expr.name + "'");
  return Value(expr.test(*this, input, arguments));
}

Value Interpreter::resolve(const std::string& name, const Scope& scope) const {
  if (const Value* value = scope.find(name)) return *value;
  if (const auto it = variables_.find(name); it != variables_.end()) return it->second;
  if (const Value* value = find_global(name)) return *value;
  return Value::undefined("'" + name + "' is undefined");
}

}  // namespace ashlar::tmpl
