// SPDX-License-Identifier: Apache-2.0
#include "text/template/run/access.h"

#include <limits>

#include "text/template/run/interpreter.h"
#include "text/template/values/dict.h"
#include "text/template/values/print.h"
#include "text/template/values/text_ops.h"
#include "text/template/values/utf8.h"

namespace ashlar::tmpl {
namespace {

class BoundMethod : public Object {
 public:
  BoundMethod(const MethodEntry& method, Value self) : method_(method), self_(std::move(self)) {
    depth_ = checked_depth(self_.depth() + 1);
  }
  std::string type_name() const override { return "builtin_function_or_method"; }
  bool callable() const override { return true; }
  Value call(Interpreter& interpreter, const Arguments& arguments) override {
    return method_.function(interpreter.budget(), self_, arguments);
  }

 private:
  const MethodEntry& method_;
  Value self_;
};

std::string object_name(const Value& object) {
  return object.is_none() ? "None" : "'" + object.type_name() + " object'";
}

Value no_attribute(const Value& object, std::string_view name) {
  return Value::undefined(object_name(object) + " has no attribute " + quote(name.substr(0, 80)));
}

Value unsafe(const Value& object, std::string_view name) {
  return Value::undefined("access to attribute " + quote(name) + " of '" + object.type_name() + "' object is unsafe");
}

/// False when there is no such attribute.
bool own_attribute(Budget& budget, const Value& object, std::string_view name, Value& out) {
  if (name.size() > 4 && name.substr(0, 2) == "__" && name.substr(name.size() - 2) == "__") {
    out = unsafe(object, name);
    return true;
  }
  if (const MethodEntry* method = find_method(object.kind(), name)) {
    budget.work(64);
    out = method->function == nullptr ? unsafe(object, name)
                                      : Value(std::shared_ptr<Object>(std::make_shared<BoundMethod>(*method, object)));
    return true;
  }
  if (object.is(Kind::kObject) && object.as_object().attribute(budget, name, out)) {
    if (name.front() == '_') out = unsafe(object, name);
    return true;
  }
  if (object.is(Kind::kTuple) && object.as_sequence().group && (name == "grouper" || name == "list")) {
    out = object.as_items()[name == "grouper" ? 0 : 1];
    return true;
  }
  return false;
}

/// The item at an integer index, counted from the end when negative; false when out of range or not indexable.
bool element(Budget& budget, const Value& object, std::int64_t index, Value& out) {
  if (!object.is(Kind::kString) && !object.is(Kind::kList) && !object.is(Kind::kTuple) && !object.is(Kind::kRange))
    return false;
  const std::int64_t size = length(object);
  if (index < 0) index += size;
  if (index < 0 || index >= size) return false;
  if (object.is(Kind::kRange)) {
    out = Value(object.as_range().at(index));
  } else if (object.is(Kind::kString)) {
    const Text& text = object.as_text();
    if (!text.ascii()) budget.work(text.bytes.size());
    const std::size_t at =
        text.ascii() ? static_cast<std::size_t>(index) : byte_offset(text.bytes, static_cast<std::size_t>(index));
    std::size_t bytes = 0;
    decode_at(text.bytes, at, bytes);
    out = make_part(budget, text, std::string_view(text.bytes).substr(at, bytes));
  } else {
    out = object.as_items()[static_cast<std::size_t>(index)];
  }
  return true;
}

/// A slice resolved against a length, by Python's rules: `count` items from `start`, `step` apart.
struct SliceRange {
  std::int64_t start, end, step, count;
};

std::int64_t bound(const Value& value, std::int64_t otherwise, std::int64_t size, std::int64_t low, std::int64_t high) {
  if (value.is_none()) return otherwise;
  if (value.is_undefined()) fail_undefined(value);
  if (!value.is_integral()) fail("slice indices must be integers or None");
  std::int64_t index = value.as_int();
  if (index < 0) index += size;
  return index < low ? low : index > high ? high : index;
}

SliceRange resolve_slice(const Value& start, const Value& stop, const Value& step, std::int64_t size) {
  SliceRange out{};
  out.step = bound(step, 1, 0, std::numeric_limits<std::int64_t>::min() + 1, std::numeric_limits<std::int64_t>::max());
  if (out.step == 0) fail("slice step cannot be zero");
  const bool forward = out.step > 0;
  const std::int64_t low = forward ? 0 : -1;
  const std::int64_t high = forward ? size : size - 1;
  out.start = bound(start, forward ? low : high, size, low, high);
  out.end = bound(stop, forward ? high : low, size, low, high);
  if (forward) {
    out.count = out.end > out.start ? (out.end - out.start - 1) / out.step + 1 : 0;
  } else {
    out.count = out.start > out.end ? (out.start - out.end - 1) / -out.step + 1 : 0;
  }
  return out;
}

Value slice_string(Budget& budget, const Text& text, const SliceRange& range) {
  budget.work(text.bytes.size());
  std::vector<std::size_t> offsets;  // of the characters, when they are not the bytes
  if (!text.ascii()) {
    offsets.reserve(text.length + 1);
    for (std::size_t at = 0, size = 0; at < text.bytes.size(); at += size) {
      offsets.push_back(at);
      decode_at(text.bytes, at, size);
    }
    offsets.push_back(text.bytes.size());
  }
  const auto offset = [&](std::int64_t i) {
    return text.ascii() ? static_cast<std::size_t>(i) : offsets[static_cast<std::size_t>(i)];
  };
  if (range.count == 0) return make_string(budget, "", Origin::kTemplate);
  if (range.step == 1) {
    const std::size_t from = offset(range.start);
    return make_part(budget, text, std::string_view(text.bytes).substr(from, offset(range.start + range.count) - from));
  }
  TextBuilder out(budget);
  for (std::int64_t i = 0; i < range.count; ++i) {
    const std::int64_t index = range.start + i * range.step;
    out.put_part(text, std::string_view(text.bytes).substr(offset(index), offset(index + 1) - offset(index)));
  }
  return make_string(budget, out.take());
}

}  // namespace

Value get_own_attribute(Budget& budget, const Value& object, std::string_view name) {
  if (object.is_undefined()) fail_undefined(object);
  Value out;
  return own_attribute(budget, object, name, out) ? out : no_attribute(object, name);
}

Value get_attribute(Budget& budget, const Value& object, std::string_view name) {
  if (object.is_undefined()) fail_undefined(object);
  Value out;
  if (own_attribute(budget, object, name, out)) return out;
  if (object.is(Kind::kDict)) {
    if (const Value* item = object.as_dict().find(name)) return *item;
    if (object.as_dict().json_text && find_string_method(name) != nullptr)
      return get_own_attribute(budget, text_of(budget, object), name);
  }
  return no_attribute(object, name);
}

Value get_item(Budget& budget, const Value& object, const Value& key) {
  if (object.is_undefined()) fail_undefined(object);
  Value out;
  if (object.is(Kind::kDict)) {
    const bool hashable = !key.is(Kind::kList) && !key.is(Kind::kDict) && !key.is(Kind::kView) && !key.is(Kind::kTuple);
    if (hashable || key.is(Kind::kTuple))
      if (const Value* item = object.as_dict().find(budget, key)) return *item;
  } else if (key.is_integral() && element(budget, object, key.as_int(), out)) {
    return out;
  }
  if (key.is(Kind::kString))
    return own_attribute(budget, object, key.as_string(), out) ? out : no_attribute(object, key.as_string());
  return Value::undefined(object_name(object) + " has no element " + to_repr(budget, key).bytes.substr(0, 80));
}

Value get_slice(Budget& budget, const Value& object, const Value& start, const Value& stop, const Value& step) {
  if (object.is_undefined()) fail_undefined(object);
  if (!object.is(Kind::kString) && !object.is(Kind::kList) && !object.is(Kind::kTuple) && !object.is(Kind::kRange))
    fail("'" + object.type_name() + "' object cannot be sliced");
  const SliceRange range = resolve_slice(start, stop, step, length(object));
  if (object.is(Kind::kString)) return slice_string(budget, object.as_text(), range);
  if (object.is(Kind::kRange)) {
    const Range& from = object.as_range();
    const auto at = [&](std::int64_t index) {  // the end of a range may lie past it, and past 64 bits
      std::int64_t value = 0;
      if (__builtin_mul_overflow(index, from.step, &value) || __builtin_add_overflow(value, from.start, &value))
        fail("integer overflow in the slice of a range");
      return value;
    };
    std::int64_t step_by = 0;
    if (__builtin_mul_overflow(from.step, range.step, &step_by)) fail("integer overflow in the slice of a range");
    const Range sliced{at(range.start), at(range.end), step_by};
    return Value(std::shared_ptr<const Range>(std::make_shared<Range>(sliced)));
  }
  std::vector<Value> items;
  budget.work(static_cast<std::uint64_t>(range.count) * sizeof(Value));
  for (std::int64_t i = 0; i < range.count; ++i)
    items.push_back(object.as_items()[static_cast<std::size_t>(range.start + i * range.step)]);
  return object.is(Kind::kList) ? make_list(budget, std::move(items)) : make_tuple(budget, std::move(items));
}

}  // namespace ashlar::tmpl
