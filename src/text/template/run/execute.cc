// SPDX-License-Identifier: Apache-2.0
#include <chrono>

#include "text/template/run/interpreter.h"
#include "text/template/values/from_json.h"
#include "text/template/values/objects.h"
#include "text/template/values/operators.h"
#include "text/template/values/print.h"

namespace ashlar::tmpl {
namespace {

/// Puts a value in place for the length of a block.
template <class T>
class Swap {
 public:
  Swap(T& slot, T value) : slot_(slot), old_(std::exchange(slot, value)) {}
  ~Swap() { slot_ = old_; }
  Swap(const Swap&) = delete;
  Swap& operator=(const Swap&) = delete;

 private:
  T& slot_;
  T old_;
};

/// Keyword arguments of a macro call, each taken once.
class NamedTaker {
 public:
  explicit NamedTaker(const Arguments& arguments) : arguments_(arguments), used_(arguments.named.size(), false) {}

  const Value* take(std::string_view name) {
    for (std::size_t i = 0; i < used_.size(); ++i)
      if (!used_[i] && arguments_.named[i].first == name) {
        used_[i] = true;
        return &arguments_.named[i].second;
      }
    return nullptr;
  }

  Dict rest(Budget& budget) const {
    Dict out;
    for (std::size_t i = 0; i < used_.size(); ++i)
      if (!used_[i])
        out.set(budget, make_string(budget, arguments_.named[i].first, arguments_.names), arguments_.named[i].second);
    return out;
  }

 private:
  const Arguments& arguments_;
  std::vector<bool> used_;
};

}  // namespace

Interpreter::Interpreter(const RenderLimits& limits, const Clock& clock, std::span<const Variable> variables)
    : budget_(limits), clock_(clock) {
  for (const Variable& variable : variables) variables_[variable.name] = from_json(budget_, variable);
}

Interpreter::~Interpreter() = default;

std::tm Interpreter::now() const {
  if (clock_) return clock_();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm local{};
  localtime_r(&seconds, &local);
  return local;
}

SourcedText Interpreter::run(const Body& body, const HiddenNames& hidden) {
  SourcedText out;
  const ScopeHold root(scopes_, budget_, nullptr, hidden);
  root_ = &*root;
  out_ = &out;
  execute(body, *root_);
  return out;
}

Namespace& Interpreter::new_namespace() {
  budget_.work(sizeof(Namespace) + 64);
  return *namespaces_.emplace_back(std::make_unique<Namespace>());
}

void Interpreter::write(std::string_view text, const Origins& origins) {
  budget_.work(text.size());
  if (out_->bytes.size() + text.size() > budget_.limits().output_bytes)
    fail("limit of " + std::to_string(budget_.limits().output_bytes) + " bytes of output exceeded");
  const std::size_t runs = out_->origins.runs().size();
  out_->append(text, origins);
  budget_.work((out_->origins.runs().size() - runs) * sizeof(Origins::Run));
}

void Interpreter::write(const Value& value) {
  const Value text = to_str(budget_, value);
  write(text.as_string(), text.as_text().origins);
}

Value Interpreter::capture(const Body& body, Scope& scope, Flow& flow) {
  SourcedText text;
  {
    const Swap<SourcedText*> redirect(out_, &text);
    flow = execute(body, scope);
  }
  return make_string(budget_, std::move(text));
}

Interpreter::Flow Interpreter::execute(const Body& body, Scope& scope) {
  const Nested nested(*this);
  for (const Stmt& stmt : body)
    if (const Flow flow = execute(stmt, scope); flow != Flow::kNormal) return flow;
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::execute(const Stmt& stmt, Scope& scope) {
  budget_.step();
  line_ = stmt.line;
  return std::visit([&](const auto& node) { return run_node(node, scope); }, stmt.node);
}

Interpreter::Flow Interpreter::run_node(const TextStmt& node, Scope&) {
  write(node.text, Origin::kTemplate);
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::run_node(const OutputStmt& node, Scope& scope) {
  write(evaluate(*node.value, scope));
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::run_node(const IfStmt& node, Scope& scope) {
  for (const IfStmt::Branch& branch : node.branches)
    if (branch.condition == nullptr || evaluate(*branch.condition, scope).truthy()) return execute(branch.body, scope);
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::run_node(const ForStmt& node, Scope& scope) {
  return run_loop(node, scope, evaluate(*node.items, scope), 0);
}

Interpreter::Flow Interpreter::run_loop(const ForStmt& node, Scope& scope, const Value& items, int depth) {
  auto loop = std::make_shared<LoopObject>(*this, node, scope, iterate(budget_, items), items.depth(), depth);
  const Value loop_value{std::shared_ptr<Object>(loop)};
  const Flow flow = run_iterations(node, scope, *loop, loop_value);
  loop->finish();
  return flow;
}

Interpreter::Flow Interpreter::run_iterations(const ForStmt& node, Scope& scope, LoopObject& loop,
                                              const Value& loop_value) {
  // As in Jinja, only an iteration that reached the end of the body keeps the else part from running.
  bool completed = false;
  while (loop.advance()) {
    budget_.step();
    const ScopeHold inner(scopes_, budget_, &scope, node.hidden);
    (*inner).set("loop", loop_value);
    assign(node.target, *inner, loop.item());
    const Flow flow = execute(node.body, *inner);
    if (flow == Flow::kBreak) break;
    completed |= flow == Flow::kNormal;
  }
  if (completed) return Flow::kNormal;
  const ScopeHold inner(scopes_, budget_, &scope, node.otherwise_hidden);
  return execute(node.otherwise, *inner);
}

bool Interpreter::loop_condition(const ForStmt& loop, Scope& scope, const Value& item) {
  const ScopeHold inner(scopes_, budget_, &scope);
  assign(loop.target, *inner, item);
  return evaluate(*loop.condition, *inner).truthy();
}

Value Interpreter::recurse_loop(const ForStmt& loop, Scope& scope, const Value& items, int depth) {
  const Nested nested(*this);
  SourcedText text;
  {
    const Swap<SourcedText*> redirect(out_, &text);
    run_loop(loop, scope, items, depth);
  }
  return make_string(budget_, std::move(text));
}

void Interpreter::assign(const Target& target, Scope& scope, Value value) {
  if (target.items.empty() && target.attribute.empty()) return scope.set(target.name, std::move(value));
  if (!target.attribute.empty()) {
    auto* names = resolve(target.name, scope).as<Namespace>();
    if (names == nullptr) fail("cannot assign attribute on non-namespace object '" + target.name + "'");
    return names->set(budget_, make_string(budget_, target.attribute, Origin::kTemplate), std::move(value));
  }
  const std::vector<Value> parts = iterate(budget_, value);
  if (parts.size() != target.items.size())
    fail("cannot unpack " + std::to_string(parts.size()) + " values into " + std::to_string(target.items.size()));
  for (std::size_t i = 0; i < parts.size(); ++i) assign(target.items[i], scope, parts[i]);
}

Interpreter::Flow Interpreter::run_node(const SetStmt& node, Scope& scope) {
  assign(node.target, scope, evaluate(*node.value, scope));
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::run_node(const SetBlockStmt& node, Scope& scope) {
  Flow flow{};
  Value text;
  {
    const ScopeHold inner(scopes_, budget_, &scope, node.hidden);
    text = capture(node.body, *inner, flow);
    if (flow != Flow::kNormal) return flow;
    if (node.filter != nullptr) {
      const Value input = text;
      const Swap<const Value*> block(block_input_, &input);
      text = evaluate(*node.filter, *inner);
    }
  }
  assign(node.target, scope, std::move(text));
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::run_node(const FilterBlockStmt& node, Scope& scope) {
  const ScopeHold inner(scopes_, budget_, &scope, node.hidden);
  Flow flow{};
  const Value text = capture(node.body, *inner, flow);
  if (flow != Flow::kNormal) return flow;
  const Swap<const Value*> block(block_input_, &text);
  write(evaluate(*node.filter, *inner));
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::run_node(const MacroStmt& node, Scope& scope) {
  scope.capture();
  scope.set(node.macro.name, Value(std::shared_ptr<Object>(std::make_shared<Macro>(node.macro, scope))));
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::run_node(const CallBlockStmt& node, Scope& scope) {
  const Value callee = evaluate(*node.call->kids[0], scope);
  Arguments arguments = evaluate_arguments(node.call->arguments, scope);
  if (arguments.find("caller") != nullptr) fail("'caller' is given twice");
  scope.capture();
  arguments.named.emplace_back("caller", Value(std::shared_ptr<Object>(std::make_shared<Macro>(node.caller, scope))));
  write(call(callee, arguments));
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::run_node(const WithStmt& node, Scope& scope) {
  std::vector<Value> values;
  for (const ExprPtr& value : node.values) values.push_back(evaluate(*value, scope));
  const ScopeHold inner(scopes_, budget_, &scope, node.hidden);
  for (std::size_t i = 0; i < values.size(); ++i) assign(node.targets[i], *inner, std::move(values[i]));
  return execute(node.body, *inner);
}

Interpreter::Flow Interpreter::run_node(const ScopeStmt& node, Scope& scope) {
  const ScopeHold inner(scopes_, budget_, node.sees_locals ? &scope : root_, node.hidden);
  return execute(node.body, *inner);
}

Value Interpreter::call_macro(const MacroDefinition& macro, Scope& closure, const Arguments& arguments) {
  const Nested nested(*this);
  const ScopeHold frame(scopes_, budget_, &closure, macro.hidden);
  bind_parameters(macro, *frame, arguments);
  Flow flow{};
  return capture(macro.body, *frame, flow);
}

void Interpreter::bind_parameters(const MacroDefinition& macro, Scope& scope, const Arguments& arguments) {
  const std::size_t count = macro.parameters.size();
  const std::size_t given = std::min(arguments.positional.size(), count);
  NamedTaker named(arguments);
  bool caller_taken = false;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string& name = macro.parameters[i];
    caller_taken |= name == "caller";
    const Value* value = i < given ? &arguments.positional[i] : named.take(name);
    const std::size_t first_default = count - macro.defaults.size();
    if (value != nullptr) {
      scope.set(name, *value);
    } else if (i >= first_default) {
      scope.set(name, evaluate(*macro.defaults[i - first_default], scope));
    } else {
      scope.set(name, Value::undefined("parameter '" + name + "' was not provided"));
    }
  }
  if (macro.uses_caller && !caller_taken) {
    const Value* caller = named.take("caller");
    scope.set("caller", caller != nullptr ? *caller : Value::undefined("no caller defined"));
  }
  Dict rest = named.rest(budget_);
  if (macro.uses_kwargs) {
    scope.set("kwargs", make_dict(std::move(rest)));
  } else if (!rest.entries.empty()) {
    fail("macro '" + macro.name + "' takes no keyword argument '" + rest.entries[0].first.as_string() + "'");
  }
  if (macro.uses_varargs) {
    std::vector<Value> more(arguments.positional.begin() + static_cast<std::ptrdiff_t>(given),
                            arguments.positional.end());
    scope.set("varargs", make_tuple(budget_, std::move(more)));
  } else if (arguments.positional.size() > count) {
    fail("macro '" + macro.name + "' takes not more than " + std::to_string(count) + " argument(s)");
  }
}

}  // namespace ashlar::tmpl
