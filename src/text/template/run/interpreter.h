// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs a parsed template. One Interpreter is one render: it owns the scopes, the namespaces and the budget.
// Expressions are in evaluate.cc, statements in execute.cc.

#include <ctime>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/keyed_hash.h"
#include "text/template/parse/ast.h"
#include "text/template/run/arguments.h"
#include "text/template/run/scope.h"
#include "text/template/run/variable.h"

namespace ashlar::tmpl {

class LoopObject;
class Namespace;

class Interpreter {
 public:
  /// `variables`: the names the template sees; the last of a name counts. The clock must outlive the interpreter.
  Interpreter(const RenderLimits& limits, const Clock& clock, std::span<const Variable> variables);
  ~Interpreter();

  /// `hidden`: those of the template's own scope.
  SourcedText run(const Body& body, const HiddenNames& hidden);

  Budget& budget() { return budget_; }
  /// Line of the node evaluated last, for messages.
  int line() const { return line_; }
  std::tm now() const;

  /// callee(arguments); fails when it cannot be called.
  Value call(const Value& callee, const Arguments& arguments);
  Value call_macro(const MacroDefinition& macro, Scope& closure, const Arguments& arguments);
  /// The text of one more pass of a recursive loop over `items`.
  Value recurse_loop(const ForStmt& loop, Scope& scope, const Value& items, int depth);
  bool loop_condition(const ForStmt& loop, Scope& scope, const Value& item);
  Namespace& new_namespace();

 private:
  enum class Flow { kNormal, kBreak, kContinue };

  /// Counts nested evaluations and refuses too many.
  class Nested {
   public:
    explicit Nested(Interpreter& interpreter);
    ~Nested() { --interpreter_.depth_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;

   private:
    Interpreter& interpreter_;
  };

  // Expressions.
  Value evaluate(const Expr& expr, Scope& scope);
  Value evaluate_operator(const Expr& expr, Scope& scope);
  Value evaluate_items(const Expr& expr, Scope& scope);
  Value evaluate_dict(const Expr& expr, Scope& scope);
  Value evaluate_compare(const Expr& expr, Scope& scope);
  Value evaluate_concat(const Expr& expr, Scope& scope);
  Value evaluate_slice(const Expr& expr, Scope& scope);
  Value evaluate_condition(const Expr& expr, Scope& scope);
  Value evaluate_call(const Expr& expr, Scope& scope);
  Value evaluate_filter(const Expr& expr, Scope& scope);
  Value evaluate_test(const Expr& expr, Scope& scope);
  Arguments evaluate_arguments(const CallArguments& arguments, Scope& scope);
  Value resolve(const std::string& name, const Scope& scope) const;

  // Statements.
  Flow execute(const Body& body, Scope& scope);
  Flow execute(const Stmt& stmt, Scope& scope);
  Flow run_node(const TextStmt& node, Scope& scope);
  Flow run_node(const OutputStmt& node, Scope& scope);
  Flow run_node(const IfStmt& node, Scope& scope);
  Flow run_node(const ForStmt& node, Scope& scope);
  Flow run_node(const SetStmt& node, Scope& scope);
  Flow run_node(const SetBlockStmt& node, Scope& scope);
  Flow run_node(const MacroStmt& node, Scope& scope);
  Flow run_node(const CallBlockStmt& node, Scope& scope);
  Flow run_node(const FilterBlockStmt& node, Scope& scope);
  Flow run_node(const WithStmt& node, Scope& scope);
  Flow run_node(const ScopeStmt& node, Scope& scope);
  Flow run_node(const BreakStmt&, Scope&) { return Flow::kBreak; }
  Flow run_node(const ContinueStmt&, Scope&) { return Flow::kContinue; }
  Flow run_loop(const ForStmt& node, Scope& scope, const Value& items, int depth);
  Flow run_iterations(const ForStmt& node, Scope& scope, LoopObject& loop, const Value& loop_value);
  void bind_parameters(const MacroDefinition& macro, Scope& scope, const Arguments& arguments);
  void assign(const Target& target, Scope& scope, Value value);
  /// The output of `body` as a string, its flow in `flow`.
  Value capture(const Body& body, Scope& scope, Flow& flow);
  void write(std::string_view text, const Origins& origins);
  /// As {{ value }}.
  void write(const Value& value);

  Budget budget_;
  const Clock& clock_;
  ScopePool scopes_;
  std::deque<std::unique_ptr<Namespace>> namespaces_;
  TextMap<Value> variables_;
  Scope* root_ = nullptr;
  SourcedText* out_ = nullptr;
  const Value* block_input_ = nullptr;  // what a filter without input is applied to
  int depth_ = 0;
  int line_ = 1;
};

}  // namespace ashlar::tmpl
