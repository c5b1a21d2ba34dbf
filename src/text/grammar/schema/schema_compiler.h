// SPDX-License-Identifier: Apache-2.0
#pragma once
// JSON schemas as grammars. What the grammar produces satisfies the schema; of all documents that do, it produces those
// with properties in the schema's order, bounded white space, numbers of bounded length and one spelling of constants.
// An object with `properties` or `patternProperties` and without `additionalProperties` is closed. `oneOf`, `not`, `if`
// and what depends on a property are rewritten into keywords that say what holds instead.

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "io/json.h"
#include "text/grammar/builder.h"
#include "text/grammar/pattern/char_kinds.h"
#include "text/grammar/schema/json_values.h"
#include "text/grammar/text_set.h"

namespace ashlar::grammar {

/// The regular expression of the texts of a `format`; throws Error("grammar") for unknown ones.
const std::string& format_pattern(const std::string& format, const std::string& pointer);

/// One that matches whatever any reader may take for that format, and more.
const std::string& widest_format_pattern(const std::string& format, const std::string& pointer);

/// Values in it and their texts, to charge for copying them.
int64_t weight(const Json& value);

/// Counts while it lives.
class Deeper {
 public:
  explicit Deeper(int32_t& depth) : depth_(++depth) {}
  ~Deeper() { --depth_; }

 private:
  int32_t& depth_;
};

class SchemaCompiler {
 public:
  /// `schema`, `builder` and `values` outlive this. Several compilers may share the latter two.
  SchemaCompiler(Builder& builder, JsonValues& values, const Json& schema);

  /// The whole schema. Throws Error("grammar") that names the place as a JSON pointer.
  Expr run();
  /// The same with `schema` in its place; references lead into the whole one as it was.
  Expr run(const Json& schema);
  /// A schema that stands anywhere; its references lead into the whole one.
  Expr run_on(const Json& schema, const std::string& pointer);
  /// Throws `error` again, with what is known of the cause: the most conditions that one schema has.
  [[noreturn]] void explain(const LimitExceeded& error) const;

 private:
  Expr value(const Json& schema, const std::string& pointer);
  Expr flat_value(const Json& schema, const std::string& pointer);
  Expr remembered(const Json& schema, const std::string& pointer);
  Expr reference(const std::string& ref, const std::string& pointer);
  Json flattened(const Json& schema, const std::string& pointer, int32_t depth);
  Json member(const Json& schema, const std::string& pointer, int32_t depth);
  Json merged(const Json& a, const Json& b, const std::string& pointer);
  Expr choices(const Json& schema, const char* key, const std::string& pointer);
  Json negated(const Json& schema, const std::string& pointer, int32_t depth);
  Json exclusive(const Json& branches, const Json& rest, const std::string& pointer, int32_t depth);
  Json hurting(const Json& branch, const Json& known, const std::string& pointer, int32_t depth);
  bool never_both(const Json& a, const Json& b, const std::string& pointer, int32_t depth);
  bool never_both_of(const std::string& type, const Json& a, const Json& b, const std::string& pointer, int32_t depth);
  Json conditions(const Json& schema, const std::string& pointer, int32_t depth);
  void count_condition(const std::string& place);
  std::vector<Json> allowed_constants(const Json& schema, const std::string& pointer);
  Expr constants(const Json& schema, const std::string& pointer);
  struct StringRules;
  StringRules string_rules(const Json& schema, const std::string& pointer);
  Expr of_types(const Json& schema, const std::string& pointer);
  Expr of_type(const std::string& type, const Json& schema, const std::string& pointer);

  Expr string(const Json& schema, const std::string& pointer);
  TextSet string_set(const Json& schema, const std::string& pointer, Reading reading = Reading::kNarrow);
  TextSet pattern_set(const std::string& pattern, const std::string& pointer, Reading reading = Reading::kNarrow);
  Expr quoted(Expr inside);
  Expr integer(const Json& schema, const std::string& pointer);
  Expr number(const Json& schema, const std::string& pointer);
  bool wants_digits(const Json& schema) const;
  Expr numbers_of(const std::function<Expr(Builder&)>& range, const Json& schema, const std::string& pointer);
  Expr array(const Json& schema, const std::string& pointer);
  Expr array_of(const std::vector<Expr>& prefix, Expr rest, int64_t min, int64_t max);
  std::optional<std::vector<Json>> listed_values(const Json& schema, const std::string& pointer);
  Expr different(const Json& items, int64_t min, int64_t max, const std::string& pointer);
  Expr containing(const Json& schema, int64_t min, int64_t max, const std::string& pointer);
  struct Property {
    std::string name;
    Expr value;
    bool required;
  };
  Expr object(const Json& schema, const std::string& pointer);
  struct NamePattern {
    TextSet sure, possible;  // names that match it for every reader, and for some
    Json value;
    std::string pointer;
  };
  struct Names {
    std::vector<NamePattern> patterns;
    std::optional<TextSet> all;  // those that propertyNames allows
  };
  std::vector<NamePattern> name_patterns(const Json& schema, const std::string& pointer);
  std::vector<Property> properties(const Json& schema, const std::string& pointer, const Json& additional,
                                   const Names& names);
  Expr extra_member(const std::vector<Property>& list, const Json& additional, const Names& names,
                    const std::string& pointer);
  Expr members(const std::vector<Property>& properties, bool open, Expr extra, int64_t min, int64_t max);
  int64_t count(const Json& schema, const char* key, int64_t fallback, const std::string& pointer) const;
  Expr pattern(const std::string& pattern, const std::string& pointer);

  Builder& builder_;
  JsonValues& values_;
  const Json& root_;
  int32_t depth_ = 0;
  int32_t merged_branches_ = 0;  // alternatives we are in that may fit nothing, as long as another one does
  int32_t loosely_ = 0;          // above 0 flattened() reads oneOf as anyOf: enough to find what never holds
  int32_t compared_texts_ = 0;
  std::set<std::string> conditions_;  // places of those that hold together with the schema that is being merged
  std::string first_condition_;       // the one of them that was met first
  size_t max_conditions_ = 0;         // of one such schema
  std::string max_conditions_at_;     // the first of those
  struct Pending {
    std::string ref, pointer;
    Rule rule;
  };
  std::vector<Pending> pending_;
  std::map<std::string, Rule> refs_;  // by pointer, or by the text of a schema that had to be merged
};

}  // namespace ashlar::grammar
