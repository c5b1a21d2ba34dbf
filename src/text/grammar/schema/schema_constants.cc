// SPDX-License-Identifier: Apache-2.0
// Constants of a schema: those of enum and const that its other keywords allow. They are taken as what they are, not
// by how a grammar would write them.

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "base/error.h"
#include "text/grammar/pattern/lookahead.h"
#include "text/grammar/pattern/regex_grammar.h"
#include "text/grammar/schema/decimal.h"
#include "text/grammar/schema/schema_compiler.h"
#include "text/grammar/schema/schema_merge.h"
#include "text/grammar/state_graph.h"

namespace ashlar::grammar {
namespace {

// Exact for every number of a JSON text where a long double has 64 bits.
long double exact(const Json& number) {
  if (number.is_number_unsigned()) return static_cast<long double>(number.get<uint64_t>());
  if (number.is_number_integer()) return static_cast<long double>(number.get<int64_t>());
  return static_cast<long double>(number.get<double>());
}

const Json& bound(const Json& schema, const char* key, const std::string& pointer) {
  const Json& value = schema[key];
  if (!value.is_number()) schema_error(pointer_to(pointer, key), "expected a number");
  return value;
}

// sign: 1 for lower bounds, -1 for upper ones. exclusive_key: a number, or as in draft 4 true next to the other.
bool within(const Json& number, const Json& schema, const char* key, const char* exclusive_key, int32_t sign,
            const std::string& pointer) {
  const bool draft4 = schema.contains(exclusive_key) && schema[exclusive_key].is_boolean();
  if (schema.contains(key)) {
    const long double beyond = sign * (exact(number) - exact(bound(schema, key, pointer)));
    if (beyond < 0 || (beyond == 0 && draft4 && schema[exclusive_key].get<bool>())) return false;
  }
  return draft4 || !schema.contains(exclusive_key) ||
         sign * (exact(number) - exact(bound(schema, exclusive_key, pointer))) > 0;
}

// (units * 10^power) % step, both above 0.
bool divides(int64_t step, int64_t units, int32_t power) {
  __extension__ using Wide = __int128;
  Wide rest = units % step;
  for (; power > 0 && rest != 0; --power) rest = rest * 10 % step;
  return rest == 0;
}

bool is_multiple(const Json& number, const Json& of) {
  if (number.is_number_integer() && of.is_number_integer() && !number.is_number_unsigned() && of.get<int64_t>() > 0) {
    return number.get<int64_t>() % of.get<int64_t>() == 0;
  }
  const Decimal value = decimal_of(number);
  const Decimal step = decimal_of(of);
  const int64_t units = value.units < 0 ? -value.units : value.units;
  if (units == 0) return true;
  if (step.places >= value.places) return divides(step.units, units, step.places - value.places);
  // In units of the value's last place the step has zeros at its end.
  int64_t wide = step.units;
  for (int32_t i = step.places; i < value.places; ++i) {
    if (wide > units / 10) return false;
    wide *= 10;
  }
  return units % wide == 0;
}

bool number_fits(const Json& number, const Json& schema, const std::string& pointer) {
  if (!within(number, schema, "minimum", "exclusiveMinimum", 1, pointer) ||
      !within(number, schema, "maximum", "exclusiveMaximum", -1, pointer)) {
    return false;
  }
  for (const char* key : {"multipleOf", kMultiples, kNotMultiples}) {
    if (!schema.contains(key)) continue;
    const Json& listed = schema[key];
    for (const Json& of : key[0] == kInternal ? listed : Json::array({listed})) {
      if (!of.is_number() || of.get<double>() <= 0) {
        schema_error(pointer_to(pointer, "multipleOf"), "expected a number above 0");
      }
      if (is_multiple(number, of) == (key == std::string_view(kNotMultiples))) return false;
    }
  }
  return true;
}

// Texts that a pattern matches, found as they are asked for.
class Matching {
 public:
  Matching(Builder& charge, const std::string& pattern, const std::string& what, Reading reading)
      : charge_(charge), grammar_(compiled(charge, pattern, what, reading)), states_(grammar_) {}

  bool contains(std::string_view text) {
    const uint64_t before = states_.work();
    StateGraph::State state = states_.start();
    for (size_t i = 0; i < text.size() && state != StateGraph::kDead; ++i) {
      state = states_.step(state, static_cast<uint8_t>(text[i]));
    }
    charge_.step(static_cast<int64_t>(text.size() / 4 + (states_.work() - before) / 8));
    return state != StateGraph::kDead && states_.accepting(state);
  }

 private:
  static Grammar compiled(Builder& charge, const std::string& pattern, const std::string& what, Reading reading) {
    Builder builder(&charge);
    const CharWriter write = [&builder](const CodePointSet& set) { return builder.chars(set); };
    const Expr wanted = regex_expression(builder, pattern, write, {what, true, reading});
    // A byte that is no UTF-8 stands for nothing at all, which a grammar cannot be.
    ByteSet outside;
    outside.set(0xFF);
    return builder.finish(builder.alternatives({wanted, builder.bytes(outside)}));
  }

  Builder& charge_;
  Grammar grammar_;
  StateGraph states_;
};

}  // namespace

// What a schema says about strings, made ready once for all of its constants.
struct SchemaCompiler::StringRules {
  struct Rule {
    std::function<bool(const std::string&)> holds;
    bool wanted;
  };
  int64_t min = 0, max = -1;
  std::vector<Rule> rules;

  bool fit(const std::string& text) const {
    const auto length = std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
    if (length < min || (max >= 0 && length > max)) return false;
    return std::all_of(rules.begin(), rules.end(), [&](const Rule& rule) { return rule.holds(text) == rule.wanted; });
  }
};

SchemaCompiler::StringRules SchemaCompiler::string_rules(const Json& schema, const std::string& pointer) {
  StringRules out{count(schema, "minLength", 0, pointer), count(schema, "maxLength", -1, pointer), {}};
  const auto add = [&](const std::string& pattern, const std::string& place, bool wanted) {
    const Reading reading = wanted ? Reading::kNarrow : Reading::kWide;
    if (begins_with_lookahead(pattern)) {
      out.rules.push_back(
          {[set = pattern_set(pattern, place, reading)](const std::string& text) { return set.contains(text); },
           wanted});
      return;
    }
    const std::string what = "the pattern at " + for_message(place);
    const auto matching = std::make_shared<Matching>(builder_, pattern, what, reading);
    out.rules.push_back({[matching](const std::string& text) { return matching->contains(text); }, wanted});
  };
  for (const char* key : {"pattern", kPatterns, kNotPatterns}) {
    const bool wanted = key != std::string_view(kNotPatterns);
    const std::string place = pointer_to(pointer, wanted ? "pattern" : "not");
    for (const std::string& text : texts_of(schema, key, pointer)) add(text, place, wanted);
  }
  for (const std::string& format : texts_of(schema, "format", pointer)) {
    add(widest_format_pattern(format, pointer), pointer_to(pointer, "format"), true);
  }
  return out;
}

// Those of enum and const that the other keywords allow.
std::vector<Json> SchemaCompiler::allowed_constants(const Json& schema, const std::string& pointer) {
  Json values = Json::array();
  if (schema.contains("const")) values.push_back(schema["const"]);
  if (schema.contains("enum")) {
    const Json& listed = schema["enum"];
    if (!listed.is_array() || listed.empty()) schema_error(pointer_to(pointer, "enum"), "expected a list of values");
    if (values.empty()) {
      values = listed;
    } else if (std::none_of(listed.begin(), listed.end(), [&](const Json& one) { return equal(one, values[0]); })) {
      return {};
    }
  }
  std::optional<StringRules> strings;
  const auto fits = [&](const Json& value) {
    if (!has_type_of(value, schema)) return false;
    if (!restricts(schema, value)) return true;
    if (value.is_number()) return number_fits(value, schema, pointer);
    if (value.is_structured()) {
      schema_error(pointer, "constants that are objects or lists do not go with other keywords");
    }
    if (!strings) strings = string_rules(schema, pointer);
    return strings->fit(value.get_ref<const std::string&>());
  };
  const Json& excluded = excluded_values(schema);
  std::vector<Json> allowed;
  for (const Json& value : values) {
    builder_.step(1 + static_cast<int64_t>(excluded.size()));
    if (std::any_of(excluded.begin(), excluded.end(), [&](const Json& one) { return equal(one, value); })) continue;
    if (fits(value)) allowed.push_back(value);
  }
  if (allowed.empty() && excluded.empty() && merged_branches_ == 0) {
    schema_error(pointer, "none of the constants fits the other keywords");
  }
  return allowed;
}

Expr SchemaCompiler::constants(const Json& schema, const std::string& pointer) {
  std::vector<std::string> texts;
  std::vector<Expr> ways;
  for (const Json& value : allowed_constants(schema, pointer)) {
    if (value.is_structured()) {
      ways.push_back(values_.constant(value));
    } else {
      texts.push_back(json_text(value));
      builder_.step(static_cast<int64_t>(texts.back().size()));
    }
  }
  if (!texts.empty()) ways.push_back(builder_.strings(std::move(texts)));
  return builder_.alternatives(std::move(ways));
}

}  // namespace ashlar::grammar
