// SPDX-License-Identifier: Apache-2.0
#include "text/template/values/value.h"

#include <algorithm>

#include "text/template/values/dict.h"
#include "text/template/values/print.h"
#include "text/template/values/utf8.h"

namespace ashlar::tmpl {
namespace {

/// Accounting size of an element of a container.
constexpr std::uint64_t kItemBytes = sizeof(Value);
constexpr std::uint64_t kNodeBytes = 64;
constexpr std::uint64_t kTextBytes = 96;

int depth_of(const std::vector<Value>& items) {
  int depth = 0;
  for (const Value& item : items) depth = std::max(depth, item.depth());
  return checked_depth(depth + 1);
}

Value make_sequence(Budget& budget, Kind kind, std::vector<Value> items, const char* view) {
  budget.work(kNodeBytes + items.size() * kItemBytes);
  Sequence sequence;
  sequence.kind = kind;
  sequence.depth = depth_of(items);
  sequence.items = std::move(items);
  sequence.view = view;
  return Value(std::shared_ptr<const Sequence>(std::make_shared<Sequence>(std::move(sequence))));
}

std::vector<Value> characters(Budget& budget, const Text& text) {
  std::vector<Value> out;
  budget.step(text.length);
  out.reserve(text.length);
  for (std::size_t at = 0, size = 0; at < text.bytes.size(); at += size) {
    decode_at(text.bytes, at, size);
    out.push_back(make_part(budget, text, std::string_view(text.bytes).substr(at, size)));
  }
  return out;
}

}  // namespace

std::int64_t Range::size() const {
  // Unsigned, because the distance of two int64 may not fit one; the size of every range that range() makes does.
  const auto distance = [](std::int64_t from, std::int64_t to) {
    return static_cast<std::uint64_t>(to) - static_cast<std::uint64_t>(from);
  };
  if (step > 0)
    return start >= stop
               ? 0
               : static_cast<std::int64_t>((distance(start, stop) - 1) / static_cast<std::uint64_t>(step) + 1);
  return start <= stop
             ? 0
             : static_cast<std::int64_t>((distance(stop, start) - 1) / (0 - static_cast<std::uint64_t>(step)) + 1);
}

void Object::append_repr(Budget&, FlatText& out, int) const { out.bytes += "<" + type_name() + " object>"; }

Value Object::call(Interpreter&, const Arguments&) { fail("'" + type_name() + "' object is not callable"); }

bool Object::attribute(Budget&, std::string_view, Value&) { return false; }

Value Value::undefined(std::string reason) {
  Value value;
  value.payload_ = std::shared_ptr<const Undefined>(std::make_shared<Undefined>(Undefined{std::move(reason)}));
  return value;
}

Kind Value::kind() const {
  static constexpr Kind kKinds[] = {Kind::kUndefined, Kind::kNone,     Kind::kBool,  Kind::kInt,
                                    Kind::kFloat,     Kind::kString,   Kind::kList,  Kind::kDict,
                                    Kind::kRange,     Kind::kIterator, Kind::kObject};
  const Kind kind = kKinds[payload_.index()];
  return kind == Kind::kList ? as_sequence().kind : kind;
}

bool Value::truthy() const {
  switch (kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
      return as_bool();
    case Kind::kInt:
      return as_int() != 0;
    case Kind::kFloat:
      return as_float() != 0;
    case Kind::kString:
      return !as_string().empty();
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kView:
      return !as_items().empty();
    case Kind::kDict:
      return !as_dict().entries.empty();
    case Kind::kRange:
      return as_range().size() != 0;
    case Kind::kIterator:
    case Kind::kObject:
      return true;
  }
  return true;
}

int Value::depth() const {
  switch (kind()) {
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kView:
      return as_sequence().depth;
    case Kind::kDict:
      return as_dict().depth;
    case Kind::kIterator:
      return as_iterator().depth;
    case Kind::kObject:
      return as_object().depth();
    default:
      return 0;
  }
}

bool Value::same_as(const Value& other) const {
  if (payload_.index() != other.payload_.index()) return false;
  return std::visit(
      [&](const auto& mine) {
        using T = std::decay_t<decltype(mine)>;
        if constexpr (std::is_same_v<T, None>) {
          return true;
        } else if constexpr (std::is_same_v<T, std::shared_ptr<const Text>>) {
          return mine->bytes == std::get<T>(other.payload_)->bytes;  // Python shares equal short strings
        } else {
          return mine == std::get<T>(other.payload_);
        }
      },
      payload_);
}

std::string Value::type_name() const {
  switch (kind()) {
    case Kind::kUndefined:
      return "Undefined";
    case Kind::kNone:
      return "NoneType";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kString:
      return as_text().markup ? "Markup" : "str";
    case Kind::kList:
      return "list";
    case Kind::kTuple:
      return "tuple";
    case Kind::kView:
      return as_sequence().view;
    case Kind::kDict:
      return "dict";
    case Kind::kRange:
      return "range";
    case Kind::kIterator:
      return "generator";
    case Kind::kObject:
      return as_object().type_name();
  }
  return "object";
}

int checked_depth(int depth) {
  if (depth > kMaxNesting) fail("limit of " + std::to_string(kMaxNesting) + " levels of nested values exceeded");
  return depth;
}

Value make_string(Budget& budget, SourcedText source, bool markup) {
  budget.string_size(source.bytes.size());
  budget.work(kTextBytes + source.origins.runs().size() * sizeof(Origins::Run));
  auto text = std::make_shared<Text>();
  text->length = count_code_points(source.bytes);
  static_cast<SourcedText&>(*text) = std::move(source);
  text->markup = markup;
  return Value(std::shared_ptr<const Text>(std::move(text)));
}

Value make_part(Budget& budget, const SourcedText& whole, std::string_view part) {
  return make_string(budget, std::string(part), whole.origins_of(part));
}

Value make_list(Budget& budget, std::vector<Value> items) {
  return make_sequence(budget, Kind::kList, std::move(items), "");
}

Value make_tuple(Budget& budget, std::vector<Value> items) {
  return make_sequence(budget, Kind::kTuple, std::move(items), "");
}

Value make_view(Budget& budget, std::vector<Value> items, const char* view) {
  return make_sequence(budget, Kind::kView, std::move(items), view);
}

Value make_iterator(Budget& budget, std::vector<Value> items) {
  budget.work(kNodeBytes + items.size() * kItemBytes);
  auto iterator = std::make_shared<Iterator>();
  iterator->depth = depth_of(items);
  iterator->items = std::move(items);
  return Value(std::move(iterator));
}

Value borrow_object(Object& object) { return Value(std::shared_ptr<Object>(std::shared_ptr<void>{}, &object)); }

std::vector<Value> iterate(Budget& budget, const Value& value) {
  budget.step();
  switch (value.kind()) {
    case Kind::kUndefined:
      return {};
    case Kind::kString:
      return characters(budget, value.as_text());
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kView:
      budget.work(value.as_items().size() * kItemBytes);
      return value.as_items();
    case Kind::kDict: {
      std::vector<Value> keys;
      budget.work(value.as_dict().entries.size() * kItemBytes);
      for (const auto& [key, item] : value.as_dict().entries) keys.push_back(key);
      return keys;
    }
    case Kind::kRange: {
      std::vector<Value> out;
      const Range& range = value.as_range();
      budget.work(static_cast<std::uint64_t>(range.size()) * kItemBytes);
      for (std::int64_t i = 0; i < range.size(); ++i) out.emplace_back(range.at(i));
      return out;
    }
    case Kind::kIterator: {
      Iterator& iterator = value.as_iterator();
      budget.work((iterator.items.size() - iterator.next) * kItemBytes);
      std::vector<Value> rest(iterator.items.begin() + static_cast<std::ptrdiff_t>(iterator.next),
                              iterator.items.end());
      iterator.next = iterator.items.size();
      return rest;
    }
    default:
      fail("'" + value.type_name() + "' object is not iterable");
  }
}

std::int64_t length(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return 0;
    case Kind::kString:
      return static_cast<std::int64_t>(value.as_text().length);
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kView:
      return static_cast<std::int64_t>(value.as_items().size());
    case Kind::kDict:
      return static_cast<std::int64_t>(value.as_dict().entries.size());
    case Kind::kRange:
      return value.as_range().size();
    default:
      fail("object of type '" + value.type_name() + "' has no len()");
  }
}

void fail_undefined(const Value& value) { fail(value.as_undefined().reason); }

}  // namespace ashlar::tmpl
