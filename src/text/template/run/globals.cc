// SPDX-License-Identifier: Apache-2.0
#include "text/template/run/globals.h"

#include <array>
#include <limits>
#include <unordered_map>

#include "text/template/values/objects.h"
#include "text/template/values/print.h"
#include "text/template/values/text_ops.h"

namespace ashlar::tmpl {
namespace {

Value raise_exception(Interpreter& interpreter, const Arguments& arguments) {
  const Bound bound("raise_exception", arguments, {"message"}, 1);
  fail("the template refuses this conversation: " + to_str(interpreter.budget(), bound.at(0)).as_string());
}

Value strftime_now(Interpreter& interpreter, const Arguments& arguments) {
  const Bound bound("strftime_now", arguments, {"format"}, 1);
  const Text& format = need_text(bound.at(0), "strftime_now()");
  return make_string(interpreter.budget(), format_time(interpreter.budget(), format.bytes, interpreter.now()),
                     format.origins.greatest());
}

Value range(Interpreter& interpreter, const Arguments& arguments) {
  const Bound bound("range", arguments, {"start", "stop", "step"}, 1);
  Range out;
  if (bound.has(1)) {
    out = {bound.integer(0, 0), bound.integer(1, 0), bound.integer(2, 1)};
  } else {
    out.stop = bound.integer(0, 0);
  }
  if (out.step == 0) fail("range() step must not be zero");
  const std::int64_t size = out.size();
  if (size < 0 || static_cast<std::uint64_t>(size) > interpreter.budget().limits().range_items)
    fail("limit of " + std::to_string(interpreter.budget().limits().range_items) + " items in range() exceeded");
  return Value(std::shared_ptr<const Range>(std::make_shared<Range>(out)));
}

/// dict(mapping or pairs, **entries)
Dict dict_of(Interpreter& interpreter, const Arguments& arguments) {
  Budget& budget = interpreter.budget();
  Dict dict;
  if (arguments.positional.size() > 1) fail("dict() takes at most one positional argument");
  if (!arguments.positional.empty()) {
    const Value& source = arguments.positional[0];
    if (source.is(Kind::kDict)) {
      for (const auto& [key, value] : source.as_dict().entries) dict.set(budget, key, value);
    } else {
      for (const Value& pair : iterate(budget, source)) {
        const std::vector<Value> parts = iterate(budget, pair);
        if (parts.size() != 2) fail("dict() needs pairs, got " + std::to_string(parts.size()) + " values");
        dict.set(budget, parts[0], parts[1]);
      }
    }
  }
  for (const auto& [name, value] : arguments.named) dict.set(budget, make_string(budget, name, arguments.names), value);
  return dict;
}

Value dict(Interpreter& interpreter, const Arguments& arguments) { return make_dict(dict_of(interpreter, arguments)); }

Value make_namespace(Interpreter& interpreter, const Arguments& arguments) {
  const Dict values = dict_of(interpreter, arguments);
  Namespace& out = interpreter.new_namespace();
  for (const auto& [key, value] : values.entries) out.set(interpreter.budget(), key, value);
  return borrow_object(out);
}

/// joiner(separator): a function that gives nothing the first time and the separator from then on.
Value joiner(Interpreter& interpreter, const Arguments& arguments) {
  const Bound bound("joiner", arguments, {"sep"});
  const SourcedText separator = bound.has(0) ? SourcedText(bound.text(0)) : SourcedText{", ", {}};
  interpreter.budget().string_size(separator.bytes.size());
  return make_function("joiner", [separator, used = std::make_shared<bool>(false)](Interpreter& in, const Arguments&) {
    return make_string(in.budget(), std::exchange(*used, true) ? separator : SourcedText{});
  });
}

class Cycler : public Object {
 public:
  Cycler(std::vector<Value> items, int depth) : state_(std::make_shared<State>()) {
    depth_ = checked_depth(depth + 1);
    state_->items = std::move(items);
  }
  std::string type_name() const override { return "Cycler"; }

  bool attribute(Budget&, std::string_view name, Value& out) override {
    if (name == "current") {
      out = state_->items[state_->position];
    } else if (name == "next") {
      out = make_function(
          "next",
          [state = state_](Interpreter&, const Arguments&) {
            const Value item = state->items[state->position];
            state->position = (state->position + 1) % state->items.size();
            return item;
          },
          depth_);
    } else if (name == "reset") {
      out = make_function(
          "reset",
          [state = state_](Interpreter&, const Arguments&) {
            state->position = 0;
            return Value();
          },
          depth_);
    } else {
      return false;
    }
    return true;
  }

 private:
  struct State {
    std::vector<Value> items;
    std::size_t position = 0;
  };
  std::shared_ptr<State> state_;
};

Value cycler(Interpreter& interpreter, const Arguments& arguments) {
  if (arguments.positional.empty()) fail("cycler() needs at least one item");
  int depth = 0;
  for (const Value& item : arguments.positional) depth = std::max(depth, item.depth());
  interpreter.budget().work(arguments.positional.size() * sizeof(Value));
  return Value(std::shared_ptr<Object>(std::make_shared<Cycler>(arguments.positional, depth)));
}

}  // namespace

const Value* find_global(const std::string& name) {
  static const auto* const kGlobals = new std::unordered_map<std::string, Value>{
      {"raise_exception", make_function("raise_exception", raise_exception)},
      {"strftime_now", make_function("strftime_now", strftime_now)},
      {"range", make_function("range", range)},
      {"dict", make_function("dict", dict)},
      {"namespace", make_function("namespace", make_namespace)},
      {"joiner", make_function("joiner", joiner)},
      {"cycler", make_function("cycler", cycler)},
  };
  const auto it = kGlobals->find(name);
  return it == kGlobals->end() ? nullptr : &it->second;
}

std::string format_time(Budget& budget, std::string_view format, const std::tm& time) {
  std::string out;
  for (std::size_t i = 0; i < format.size(); ++i) {
    budget.work(1);
    if (format[i] != '%' || i + 1 == format.size()) {
      out.push_back(format[i]);
      continue;
    }
    std::string piece = "%";
    if (std::string_view("-_0^#").find(format[i + 1]) != std::string_view::npos && i + 2 < format.size())
      piece.push_back(format[++i]);
    piece.push_back(format[++i]);
    if (std::string_view("aAbBcCdDeFgGhHIjklmMnpPrRsStTuUVwWxXyYzZ%").find(piece.back()) == std::string_view::npos) {
      out += piece;  // glibc leaves what it does not know
      continue;
    }
    std::array<char, 128> buffer{};
    std::tm copy = time;
    const std::size_t size = std::strftime(buffer.data(), buffer.size(), piece.c_str(), &copy);
    budget.work(size);
    out.append(buffer.data(), size);
  }
  return out;
}

}  // namespace ashlar::tmpl
