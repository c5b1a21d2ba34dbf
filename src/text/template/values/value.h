// SPDX-License-Identifier: Apache-2.0
#pragma once
// Values of the template language: Python's, as far as templates can see them. All but iterators, namespaces and
// loop objects are immutable and shared. Namespaces and macros live in the interpreter and are only pointed at
// (alias pointers without ownership), so no cycle can keep a value alive.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "text/template/origins.h"
#include "text/template/run/budget.h"

namespace ashlar::tmpl {

class Value;
class Interpreter;
struct Arguments;
struct FlatText;

enum class Kind : std::uint8_t {
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kList,
  kTuple,
  kView,  ///< dict.keys(), .values(), .items(): iterable and sized, without subscripts
  kDict,
  kRange,
  kIterator,
  kObject,
};

/// Why a name has no value: the message of the error when it is used all the same.
struct Undefined {
  std::string reason;
};

struct None {};

struct Text : SourcedText {
  std::size_t length = 0;  ///< code points
  bool markup = false;     ///< escape() leaves it alone, + escapes the other side
  bool ascii() const { return length == bytes.size(); }
};

struct Sequence {
  Kind kind = Kind::kList;
  std::vector<Value> items;
  int depth = 1;
  const char* view = "";  ///< "dict_items" and so on, for kView
  bool group = false;     ///< a tuple of groupby(): items are also reachable as .grouper and .list
};

struct Dict;

struct Range {
  std::int64_t start = 0, stop = 0, step = 1;
  std::int64_t size() const;
  std::int64_t at(std::int64_t index) const { return start + index * step; }
};

/// A generator: its items are there already, but each can be taken only once.
struct Iterator {
  std::vector<Value> items;
  std::size_t next = 0;
  int depth = 1;
};

/// Anything with behaviour of its own: macros, functions, bound methods, namespaces, loop variables.
class Object {
 public:
  virtual ~Object() = default;
  virtual std::string type_name() const = 0;
  /// Appends what printing shows.
  virtual void append_repr(Budget& budget, FlatText& out, int depth) const;
  virtual bool callable() const { return false; }
  virtual Value call(Interpreter& interpreter, const Arguments& arguments);
  /// The attribute `name`, false when there is none.
  virtual bool attribute(Budget& budget, std::string_view name, Value& out);
  int depth() const { return depth_; }

 protected:
  int depth_ = 1;
};

class Value {
 public:
  Value() : payload_(None{}) {}
  Value(bool value) : payload_(value) {}                                        // NOLINT(google-explicit-constructor)
  Value(std::int64_t value) : payload_(value) {}                                // NOLINT(google-explicit-constructor)
  Value(double value) : payload_(value) {}                                      // NOLINT(google-explicit-constructor)
  Value(std::shared_ptr<const Text> value) : payload_(std::move(value)) {}      // NOLINT(google-explicit-constructor)
  Value(std::shared_ptr<const Sequence> value) : payload_(std::move(value)) {}  // NOLINT(google-explicit-constructor)
  Value(std::shared_ptr<const Dict> value) : payload_(std::move(value)) {}      // NOLINT(google-explicit-constructor)
  Value(std::shared_ptr<const Range> value) : payload_(std::move(value)) {}     // NOLINT(google-explicit-constructor)
  Value(std::shared_ptr<Iterator> value) : payload_(std::move(value)) {}        // NOLINT(google-explicit-constructor)
  Value(std::shared_ptr<Object> value) : payload_(std::move(value)) {}          // NOLINT(google-explicit-constructor)
  Value(const char*) = delete;

  static Value undefined(std::string reason);

  Kind kind() const;
  bool is(Kind kind) const { return this->kind() == kind; }
  bool is_undefined() const { return is(Kind::kUndefined); }
  bool is_none() const { return is(Kind::kNone); }
  /// int or bool, as Python's isinstance(x, int).
  bool is_integral() const { return is(Kind::kInt) || is(Kind::kBool); }
  bool is_number() const { return is_integral() || is(Kind::kFloat); }
  bool is_sequence() const { return std::holds_alternative<std::shared_ptr<const Sequence>>(payload_); }

  // Each requires the kind it names.
  const Undefined& as_undefined() const { return *std::get<std::shared_ptr<const Undefined>>(payload_); }
  bool as_bool() const { return std::get<bool>(payload_); }
  std::int64_t as_int() const { return is(Kind::kBool) ? (as_bool() ? 1 : 0) : std::get<std::int64_t>(payload_); }
  double as_float() const { return std::get<double>(payload_); }
  /// Of any number.
  double as_number() const { return is(Kind::kFloat) ? as_float() : static_cast<double>(as_int()); }
  const Text& as_text() const { return *std::get<std::shared_ptr<const Text>>(payload_); }
  const std::string& as_string() const { return as_text().bytes; }
  const Sequence& as_sequence() const { return *std::get<std::shared_ptr<const Sequence>>(payload_); }
  const std::vector<Value>& as_items() const { return as_sequence().items; }
  const Dict& as_dict() const { return *std::get<std::shared_ptr<const Dict>>(payload_); }
  const Range& as_range() const { return *std::get<std::shared_ptr<const Range>>(payload_); }
  Iterator& as_iterator() const { return *std::get<std::shared_ptr<Iterator>>(payload_); }
  Object& as_object() const { return *std::get<std::shared_ptr<Object>>(payload_); }
  template <class T>
  T* as() const {
    const auto* object = std::get_if<std::shared_ptr<Object>>(&payload_);
    return object ? dynamic_cast<T*>(object->get()) : nullptr;
  }

  /// Python's truth value.
  bool truthy() const;
  /// Levels of nesting below and with this value; 0 for scalars.
  int depth() const;
  /// Python's `is`, exact for what templates compare so: None, booleans, shared objects.
  bool same_as(const Value& other) const;
  /// As in Python's messages: "str", "dict", "jinja2.utils.Namespace".
  std::string type_name() const;

 private:
  using Payload =
      std::variant<std::shared_ptr<const Undefined>, None, bool, std::int64_t, double, std::shared_ptr<const Text>,
                   std::shared_ptr<const Sequence>, std::shared_ptr<const Dict>, std::shared_ptr<const Range>,
                   std::shared_ptr<Iterator>, std::shared_ptr<Object>>;
  Payload payload_;
};

Value make_string(Budget& budget, SourcedText text, bool markup = false);
inline Value make_string(Budget& budget, std::string bytes, Origins origins, bool markup = false) {
  return make_string(budget, SourcedText{std::move(bytes), std::move(origins)}, markup);
}
/// A string of the bytes `part`, which point into those of `whole` or are none.
Value make_part(Budget& budget, const SourcedText& whole, std::string_view part);
Value make_list(Budget& budget, std::vector<Value> items);
Value make_tuple(Budget& budget, std::vector<Value> items);
Value make_view(Budget& budget, std::vector<Value> items, const char* view);
Value make_iterator(Budget& budget, std::vector<Value> items);
/// An object that the interpreter owns: the value does not keep it alive.
Value borrow_object(Object& object);

/// Fails when a container of values `depth` deep would be too deep.
int checked_depth(int depth);

/// The items a for loop sees. Fails on what cannot be iterated.
std::vector<Value> iterate(Budget& budget, const Value& value);
/// len(); fails on what has none.
std::int64_t length(const Value& value);

/// The error of using an undefined value.
[[noreturn]] void fail_undefined(const Value& value);

}  // namespace ashlar::tmpl
