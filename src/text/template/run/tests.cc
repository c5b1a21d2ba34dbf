// SPDX-License-Identifier: Apache-2.0
#include "text/template/run/tests.h"

#include "text/template/filters/filters.h"
#include "text/template/run/access.h"
#include "text/template/run/interpreter.h"
#include "text/template/values/operators.h"
#include "text/template/values/print.h"

namespace ashlar::tmpl {
namespace {

template <bool (*kTest)(const Value&)>
bool plain(Interpreter&, const Value& value, const Arguments& arguments) {
  const Bound bound("test", arguments, {});
  return kTest(value);
}

bool is_defined(const Value& v) { return !v.is_undefined(); }
bool is_undefined(const Value& v) { return v.is_undefined(); }
bool is_none(const Value& v) { return v.is_none(); }
bool is_boolean(const Value& v) { return v.is(Kind::kBool); }
bool is_true(const Value& v) { return v.is(Kind::kBool) && v.as_bool(); }
bool is_false(const Value& v) { return v.is(Kind::kBool) && !v.as_bool(); }
bool is_integer(const Value& v) { return v.is(Kind::kInt); }
bool is_float(const Value& v) { return v.is(Kind::kFloat); }
bool is_number(const Value& v) { return v.is_number(); }
bool is_string(const Value& v) { return v.is(Kind::kString); }
bool is_mapping(const Value& v) { return v.is(Kind::kDict); }
bool is_escaped(const Value& v) { return v.is(Kind::kString) && v.as_text().markup; }

/// Jinja's undefined has length and subscripts, so it counts here and among the callables too.
bool is_sequence(const Value& v) {
  switch (v.kind()) {
    case Kind::kUndefined:
    case Kind::kString:
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kDict:
    case Kind::kRange:
      return true;
    default:
      return false;
  }
}

bool is_iterable(const Value& v) { return is_sequence(v) || v.is(Kind::kView) || v.is(Kind::kIterator); }

bool is_callable(const Value& v) { return v.is_undefined() || (v.is(Kind::kObject) && v.as_object().callable()); }

template <int kRest>
bool parity(Interpreter& in, const Value& value, const Arguments& arguments) {
  const Bound bound("parity test", arguments, {});
  const Value rest = arithmetic(in.budget(), BinaryOp::kMod, value, Value(std::int64_t{2}));
  return equal(in.budget(), rest, Value(std::int64_t{kRest}));
}

bool divisible_by(Interpreter& in, const Value& value, const Arguments& arguments) {
  const Bound bound("divisibleby", arguments, {"num"}, 1);
  return equal(in.budget(), arithmetic(in.budget(), BinaryOp::kMod, value, bound.at(0)), Value(std::int64_t{0}));
}

template <CompareOp kOp>
bool compared(Interpreter& in, const Value& value, const Arguments& arguments) {
  const Bound bound("comparison", arguments, {"other"}, 1);
  return compare(in.budget(), kOp, value, bound.at(0));
}

bool same_as(Interpreter&, const Value& value, const Arguments& arguments) {
  const Bound bound("sameas", arguments, {"other"}, 1);
  return value.same_as(bound.at(0));
}

bool cased(Interpreter& in, const Value& value, std::string_view method) {
  const Value text = to_str(in.budget(), value);
  return find_string_method(method)->function(in.budget(), text, {}).truthy();
}

bool is_lower(Interpreter& in, const Value& value, const Arguments&) { return cased(in, value, "islower"); }
bool is_upper(Interpreter& in, const Value& value, const Arguments&) { return cased(in, value, "isupper"); }

bool is_filter(Interpreter&, const Value& value, const Arguments&) {
  return value.is(Kind::kString) && find_filter(value.as_string()) != nullptr;
}

bool is_test(Interpreter&, const Value& value, const Arguments&) {
  return value.is(Kind::kString) && find_test(value.as_string()) != nullptr;
}

struct TestEntry {
  std::string_view name;
  TestFn function;
};

constexpr TestEntry kTests[] = {
    {"defined", plain<is_defined>},
    {"undefined", plain<is_undefined>},
    {"none", plain<is_none>},
    {"boolean", plain<is_boolean>},
    {"true", plain<is_true>},
    {"false", plain<is_false>},
    {"integer", plain<is_integer>},
    {"float", plain<is_float>},
    {"number", plain<is_number>},
    {"string", plain<is_string>},
    {"mapping", plain<is_mapping>},
    {"sequence", plain<is_sequence>},
    {"iterable", plain<is_iterable>},
    {"callable", plain<is_callable>},
    {"escaped", plain<is_escaped>},
    {"odd", parity<1>},
    {"even", parity<0>},
    {"divisibleby", divisible_by},
    {"sameas", same_as},
    {"lower", is_lower},
    {"upper", is_upper},
    {"filter", is_filter},
    {"test", is_test},
    {"in", compared<CompareOp::kIn>},
    {"eq", compared<CompareOp::kEq>},
    {"==", compared<CompareOp::kEq>},
    {"equalto", compared<CompareOp::kEq>},
    {"ne", compared<CompareOp::kNe>},
    {"!=", compared<CompareOp::kNe>},
    {"lt", compared<CompareOp::kLt>},
    {"<", compared<CompareOp::kLt>},
    {"lessthan", compared<CompareOp::kLt>},
    {"le", compared<CompareOp::kLe>},
    {"<=", compared<CompareOp::kLe>},
    {"gt", compared<CompareOp::kGt>},
    {">", compared<CompareOp::kGt>},
    {"greaterthan", compared<CompareOp::kGt>},
    {"ge", compared<CompareOp::kGe>},
    {">=", compared<CompareOp::kGe>},
};

}  // namespace

TestFn find_test(std::string_view name) {
  for (const TestEntry& entry : kTests)
    if (entry.name == name) return entry.function;
  return nullptr;
}

}  // namespace ashlar::tmpl
