// SPDX-License-Identifier: Apache-2.0
#pragma once
// Objects with behaviour: functions, macros, namespaces and the variable `loop`.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "text/template/run/interpreter.h"
#include "text/template/values/dict.h"
#include "text/template/values/print.h"

namespace ashlar::tmpl {

class NativeFunction : public Object {
 public:
  using Body = std::function<Value(Interpreter&, const Arguments&)>;
  /// `body` may hold scalars only, or `depth` must say how deep what it holds nests.
  NativeFunction(std::string name, Body body, int depth = 1) : name_(std::move(name)), body_(std::move(body)) {
    depth_ = checked_depth(depth);
  }
  std::string type_name() const override { return "function"; }
  void append_repr(Budget&, FlatText& out, int) const override { out.bytes += "<function " + name_ + ">"; }
  bool callable() const override { return true; }
  Value call(Interpreter& interpreter, const Arguments& arguments) override { return body_(interpreter, arguments); }

 private:
  std::string name_;
  Body body_;
};

Value make_function(std::string name, NativeFunction::Body body, int depth = 1);

class Macro : public Object {
 public:
  /// Both outlive the macro: the definition in the template, the scope in the interpreter.
  Macro(const MacroDefinition& definition, Scope& closure) : definition_(definition), closure_(closure) {}
  std::string type_name() const override { return "Macro"; }
  void append_repr(Budget& budget, FlatText& out, int depth) const override;
  bool callable() const override { return true; }
  Value call(Interpreter& interpreter, const Arguments& arguments) override {
    return interpreter.call_macro(definition_, closure_, arguments);
  }
  bool attribute(Budget& budget, std::string_view name, Value& out) override;

 private:
  const MacroDefinition& definition_;
  Scope& closure_;
};

/// namespace(): the one thing templates may change. Its depth is 1 whatever it holds, since values only borrow it.
class Namespace : public Object {
 public:
  std::string type_name() const override { return "Namespace"; }
  void append_repr(Budget& budget, FlatText& out, int depth) const override;
  bool attribute(Budget& budget, std::string_view name, Value& out) override;
  void set(Budget& budget, const Value& name, Value value) { attributes_.set(budget, name, std::move(value)); }

 private:
  Dict attributes_;
};

/// The variable `loop`. Items are tested against the loop's condition only when they are reached (or when the template
/// looks ahead), because the body may change what the condition sees.
class LoopObject : public Object {
 public:
  LoopObject(Interpreter& interpreter, const ForStmt& node, Scope& scope, std::vector<Value> source, int source_depth,
             int depth0);

  std::string type_name() const override { return "LoopContext"; }
  void append_repr(Budget& budget, FlatText& out, int depth) const override;
  bool callable() const override { return true; }
  Value call(Interpreter& interpreter, const Arguments& arguments) override;
  bool attribute(Budget& budget, std::string_view name, Value& out) override;

  /// Moves to the next item; false at the end.
  bool advance();
  const Value& item() const { return items_[static_cast<std::size_t>(index0_)]; }
  /// After the loop: nothing more is tested.
  void finish() { source_.clear(); }

 private:
  bool available(std::size_t count);
  std::int64_t total();
  Value changed_function();

  Interpreter& interpreter_;
  const ForStmt& node_;
  Scope& scope_;
  std::vector<Value> source_;
  std::size_t next_source_ = 0;
  std::vector<Value> items_;
  std::int64_t index0_ = -1;
  int depth0_;
  std::shared_ptr<std::string> last_changed_;
};

}  // namespace ashlar::tmpl
