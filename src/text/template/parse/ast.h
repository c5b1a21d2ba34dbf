// SPDX-License-Identifier: Apache-2.0
#pragma once
// The parsed template. Immutable after parsing; `height` bounds every recursion over it.

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "text/template/values/value.h"

namespace ashlar::tmpl {

enum class BinaryOp { kAdd, kSub, kMul, kDiv, kFloorDiv, kMod, kPow };
enum class CompareOp { kEq, kNe, kLt, kLe, kGt, kGe, kIn, kNotIn };

/// What an Expr is, and its kids.
enum class ExprKind {
  kConstant,   ///< value
  kName,       ///< name
  kTuple,      ///< items
  kList,       ///< items
  kDict,       ///< key, value, key, value ...
  kGetattr,    ///< object; name
  kGetitem,    ///< object, key
  kSlice,      ///< object, start, stop, step; the last three may be null
  kCall,       ///< callee; arguments
  kFilter,     ///< input, null for the text of a filter block or block set; name, filter, arguments
  kTest,       ///< input; name, test, arguments
  kNot,        ///< operand
  kNegate,     ///< operand
  kPlus,       ///< operand
  kAnd,        ///< left, right
  kOr,         ///< left, right
  kBinary,     ///< left, right; binary
  kCompare,    ///< first, second, ...; compares, one fewer
  kConcat,     ///< operands
  kCondition,  ///< condition, then, else; the last may be null
};

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;
using FilterFn = Value (*)(Interpreter&, const Value& input, const Arguments&);
using TestFn = bool (*)(Interpreter&, const Value& input, const Arguments&);

struct CallArguments {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr star;         ///< *expression, may be null
  ExprPtr double_star;  ///< **expression, may be null
};

struct Expr {
  ExprKind kind = ExprKind::kConstant;
  int line = 0;
  int height = 1;
  std::string name;
  Value value;
  std::vector<ExprPtr> kids;
  std::vector<CompareOp> compares;
  BinaryOp binary = BinaryOp::kAdd;
  CallArguments arguments;
  FilterFn filter = nullptr;  ///< null: no such filter, an error when it is reached
  TestFn test = nullptr;
};

struct Stmt;
using Body = std::vector<Stmt>;

/// Names that are undefined when a scope begins, with the value that says so (scope_analysis.h).
using HiddenNames = std::vector<std::pair<std::string, Value>>;

/// Left side of an assignment.
struct Target {
  std::string name;       ///< of the variable or namespace; empty for a tuple
  std::string attribute;  ///< of the namespace, empty for a plain variable
  std::vector<Target> items;
};

struct MacroDefinition {
  std::string name;
  std::vector<std::string> parameters;
  std::vector<ExprPtr> defaults;  ///< of the last parameters
  Body body;
  bool uses_caller = false, uses_varargs = false, uses_kwargs = false;
  HiddenNames hidden;
};

struct TextStmt {
  std::string text;
};
struct OutputStmt {
  ExprPtr value;
};
struct IfStmt {
  struct Branch {
    ExprPtr condition;  ///< null for else
    Body body;
  };
  std::vector<Branch> branches;
};
struct ForStmt {
  Target target;
  ExprPtr items;
  ExprPtr condition;  ///< may be null
  bool recursive = false;
  Body body, otherwise;
  HiddenNames hidden, otherwise_hidden;
};
struct SetStmt {
  Target target;
  ExprPtr value;
};
struct SetBlockStmt {
  Target target;
  ExprPtr filter;  ///< may be null
  Body body;
  HiddenNames hidden;
};
struct MacroStmt {
  MacroDefinition macro;
};
struct CallBlockStmt {
  MacroDefinition caller;
  ExprPtr call;
};
struct FilterBlockStmt {
  ExprPtr filter;
  Body body;
  HiddenNames hidden;
};
struct WithStmt {
  std::vector<Target> targets;
  std::vector<ExprPtr> values;
  Body body;
  HiddenNames hidden;
};
/// {% block %} renders in place, {% generation %} too: there is no inheritance here.
struct ScopeStmt {
  Body body;
  HiddenNames hidden;
  bool sees_locals = true;  ///< false for a block, which sees top-level variables only
};
struct BreakStmt {};
struct ContinueStmt {};

struct Stmt {
  int line = 0;
  std::variant<TextStmt, OutputStmt, IfStmt, ForStmt, SetStmt, SetBlockStmt, MacroStmt, CallBlockStmt, FilterBlockStmt,
               WithStmt, ScopeStmt, BreakStmt, ContinueStmt>
      node;
};

}  // namespace ashlar::tmpl
