// SPDX-License-Identifier: Apache-2.0
#include "text/template/values/objects.h"

namespace ashlar::tmpl {

Value make_function(std::string name, NativeFunction::Body body, int depth) {
  return Value(std::shared_ptr<Object>(std::make_shared<NativeFunction>(std::move(name), std::move(body), depth)));
}

void Macro::append_repr(Budget&, FlatText& out, int) const { out.bytes += "<Macro " + quote(definition_.name) + ">"; }

bool Macro::attribute(Budget& budget, std::string_view name, Value& out) {
  if (name == "name") {
    out = make_string(budget, definition_.name, Origin::kTemplate);
  } else if (name == "arguments") {
    std::vector<Value> names;
    for (const std::string& parameter : definition_.parameters)
      names.push_back(make_string(budget, parameter, Origin::kTemplate));
    out = make_tuple(budget, std::move(names));
  } else if (name == "caller") {
    out = Value(definition_.uses_caller);
  } else if (name == "catch_kwargs") {
    out = Value(definition_.uses_kwargs);
  } else if (name == "catch_varargs") {
    out = Value(definition_.uses_varargs);
  } else {
    return false;
  }
  return true;
}

void Namespace::append_repr(Budget& budget, FlatText& out, int depth) const {
  out.bytes += "<Namespace {";
  const char* separator = "";
  for (const auto& [key, value] : attributes_.entries) {
    out.bytes += separator;
    tmpl::append_repr(budget, out, key, depth + 1);
    out.bytes += ": ";
    tmpl::append_repr(budget, out, value, depth + 1);
    separator = ", ";
  }
  out.bytes += "}>";
}

bool Namespace::attribute(Budget&, std::string_view name, Value& out) {
  const Value* value = attributes_.find(name);
  if (value != nullptr) out = *value;
  return value != nullptr;
}

LoopObject::LoopObject(Interpreter& interpreter, const ForStmt& node, Scope& scope, std::vector<Value> source,
                       int source_depth, int depth0)
    : interpreter_(interpreter),
      node_(node),
      scope_(scope),
      source_(std::move(source)),
      depth0_(depth0),
      last_changed_(std::make_shared<std::string>()) {
  depth_ = checked_depth(source_depth + 1);
}

void LoopObject::append_repr(Budget&, FlatText& out, int) const {
  out.bytes += "<LoopContext " + std::to_string(index0_ + 1) + "/" + std::to_string(items_.size()) + ">";
}

bool LoopObject::available(std::size_t count) {
  while (items_.size() < count && next_source_ < source_.size()) {
    const Value& candidate = source_[next_source_++];
    if (node_.condition == nullptr || interpreter_.loop_condition(node_, scope_, candidate))
      items_.push_back(candidate);
  }
  return items_.size() >= count;
}

bool LoopObject::advance() {
  ++index0_;
  return available(static_cast<std::size_t>(index0_) + 1);
}

std::int64_t LoopObject::total() {
  available(items_.size() + source_.size() + 1);
  return static_cast<std::int64_t>(items_.size());
}

Value LoopObject::call(Interpreter& interpreter, const Arguments& arguments) {
  if (!node_.recursive) fail("the loop must have the 'recursive' marker to be called recursively");
  const Bound bound("loop", arguments, {"iterable"}, 1);
  return interpreter.recurse_loop(node_, scope_, bound.at(0), depth0_ + 1);
}

/// loop.changed compares with its last call by what values print as, which spares it from keeping them alive.
Value LoopObject::changed_function() {
  return make_function("changed", [last = last_changed_](Interpreter& interpreter, const Arguments& arguments) {
    FlatText seen{"="};
    for (const Value& value : arguments.positional) tmpl::append_repr(interpreter.budget(), seen, value, 0);
    const bool changed = seen.bytes != *last;
    *last = std::move(seen.bytes);
    return Value(changed);
  });
}

bool LoopObject::attribute(Budget&, std::string_view name, Value& out) {
  const auto next = static_cast<std::size_t>(index0_) + 1;
  if (name == "index") {
    out = Value(index0_ + 1);
  } else if (name == "index0") {
    out = Value(index0_);
  } else if (name == "first") {
    out = Value(index0_ == 0);
  } else if (name == "last") {
    out = Value(!available(next + 1));
  } else if (name == "length") {
    out = Value(total());
  } else if (name == "revindex") {
    out = Value(total() - index0_);
  } else if (name == "revindex0") {
    out = Value(total() - index0_ - 1);
  } else if (name == "previtem") {
    out = index0_ <= 0 ? Value::undefined("there is no previous item") : items_[next - 2];
  } else if (name == "nextitem") {
    out = available(next + 1) ? items_[next] : Value::undefined("there is no next item");
  } else if (name == "depth") {
    out = Value(static_cast<std::int64_t>(depth0_ + 1));
  } else if (name == "depth0") {
    out = Value(static_cast<std::int64_t>(depth0_));
  } else if (name == "cycle") {
    out = make_function("cycle", [index = index0_](Interpreter&, const Arguments& arguments) {
      if (arguments.positional.empty()) fail("no items for cycling given");
      return arguments.positional[static_cast<std::size_t>(index) % arguments.positional.size()];
    });
  } else if (name == "changed") {
    out = changed_function();
  } else {
    return false;
  }
  return true;
}

}  // namespace ashlar::tmpl
