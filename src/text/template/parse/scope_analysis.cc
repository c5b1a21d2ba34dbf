// SPDX-License-Identifier: Apache-2.0
#include "text/template/parse/scope_analysis.h"

#include <map>
#include <string>
#include <string_view>

namespace ashlar::tmpl {
namespace {

/// What is known of one scope while its statements are read in order.
struct Frame {
  const Frame* parent = nullptr;  ///< the scope around this one
  int branches = 0;               ///< how many ifs surround the statement being read
  /// Names that live here, and whether they start out undefined (assigned first) rather than with an outer value.
  std::map<std::string_view, bool> names;

  bool has(std::string_view name) const { return names.count(name) != 0; }
  bool outside(std::string_view name) const {
    for (const Frame* frame = parent; frame != nullptr; frame = frame->parent)
      if (frame->has(name)) return true;
    return false;
  }

  void load(std::string_view name) {
    if (!has(name) && !outside(name)) names.emplace(name, false);
  }
  /// An assignment that may not run, being in a branch, leaves the name its outer value until then.
  void store(std::string_view name) {
    if (!has(name)) names.emplace(name, branches == 0 && !outside(name));
  }
  void parameter(std::string_view name) { names[name] = false; }
  HiddenNames hidden() const {
    HiddenNames out;
    for (const auto& [name, undefined] : names)
      if (undefined) out.emplace_back(name, Value::undefined("'" + std::string(name) + "' is undefined"));
    return out;
  }
};

void load(Frame& frame, const Expr* expr);

void load_all(Frame& frame, const CallArguments& arguments) {
  for (const ExprPtr& value : arguments.positional) load(frame, value.get());
  for (const auto& [name, value] : arguments.named) load(frame, value.get());
  load(frame, arguments.star.get());
  load(frame, arguments.double_star.get());
}

void load(Frame& frame, const Expr* expr) {
  if (expr == nullptr) return;
  if (expr->kind == ExprKind::kName) frame.load(expr->name);
  for (const ExprPtr& kid : expr->kids) load(frame, kid.get());
  load_all(frame, expr->arguments);
}

void store(Frame& frame, const Target& target) {
  if (!target.attribute.empty()) {
    frame.load(target.name);
  } else if (target.items.empty()) {
    frame.store(target.name);
  }
  for (const Target& item : target.items) store(frame, item);
}

// First pass: the names of one scope, without those of the scopes inside it.

void scan(Frame& frame, const Body& body);

struct Scanner {
  Frame& frame;

  void operator()(const OutputStmt& node) const { load(frame, node.value.get()); }
  void operator()(const IfStmt& node) const {
    ++frame.branches;
    for (const IfStmt::Branch& branch : node.branches) {
      load(frame, branch.condition.get());
      scan(frame, branch.body);
    }
    --frame.branches;
  }
  void operator()(const ForStmt& node) const { load(frame, node.items.get()); }
  void operator()(const SetStmt& node) const {
    load(frame, node.value.get());
    store(frame, node.target);
  }
  void operator()(const SetBlockStmt& node) const { store(frame, node.target); }
  void operator()(const MacroStmt& node) const { frame.store(node.macro.name); }
  void operator()(const CallBlockStmt& node) const { load(frame, node.call.get()); }
  void operator()(const FilterBlockStmt& node) const { load(frame, node.filter.get()); }
  void operator()(const WithStmt& node) const {
    for (const ExprPtr& value : node.values) load(frame, value.get());
  }
  template <class Other>
  void operator()(const Other&) const {}
};

void scan(Frame& frame, const Body& body) {
  for (const Stmt& stmt : body) std::visit(Scanner{frame}, stmt.node);
}

// Second pass: the scopes inside, each with the finished frame of what surrounds it.

void descend(const Frame& frame, Body& body);

HiddenNames inner_scope(const Frame& outer, Body& body, const std::vector<const Target*>& targets = {}) {
  Frame frame;
  frame.parent = &outer;
  for (const Target* target : targets) store(frame, *target);
  scan(frame, body);
  descend(frame, body);
  return frame.hidden();
}

void macro_scope(const Frame& outer, MacroDefinition& macro) {
  Frame frame;
  frame.parent = &outer;
  for (const std::string& parameter : macro.parameters) frame.parameter(parameter);
  for (const char* name : {"caller", "kwargs", "varargs"}) frame.parameter(name);
  scan(frame, macro.body);
  descend(frame, macro.body);
  macro.hidden = frame.hidden();
}

struct Descender {
  const Frame& frame;

  void operator()(IfStmt& node) const {
    for (IfStmt::Branch& branch : node.branches) descend(frame, branch.body);
  }
  void operator()(ForStmt& node) const {
    node.hidden = inner_scope(frame, node.body, {&node.target});
    node.otherwise_hidden = inner_scope(frame, node.otherwise);
  }
  void operator()(SetBlockStmt& node) const { node.hidden = inner_scope(frame, node.body); }
  void operator()(MacroStmt& node) const { macro_scope(frame, node.macro); }
  void operator()(CallBlockStmt& node) const { macro_scope(frame, node.caller); }
  void operator()(FilterBlockStmt& node) const { node.hidden = inner_scope(frame, node.body); }
  void operator()(WithStmt& node) const {
    std::vector<const Target*> targets;
    for (const Target& target : node.targets) targets.push_back(&target);
    node.hidden = inner_scope(frame, node.body, targets);
  }
  void operator()(ScopeStmt& node) const {
    static const Frame kNothing;
    node.hidden = inner_scope(node.sees_locals ? frame : kNothing, node.body);
  }
  template <class Other>
  void operator()(Other&) const {}
};

void descend(const Frame& frame, Body& body) {
  for (Stmt& stmt : body) std::visit(Descender{frame}, stmt.node);
}

}  // namespace

HiddenNames analyze_scopes(Body& body) {
  Frame root;
  scan(root, body);
  descend(root, body);
  return root.hidden();
}

}  // namespace ashlar::tmpl
