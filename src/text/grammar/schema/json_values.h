// SPDX-License-Identifier: Apache-2.0
#pragma once
// The pieces of JSON text that schemas are put together from. White space is bounded: after '{', '[', ',' and before
// '}', ']' at most one space, or a line break with an indent; after ':' at most one space. A model that likes white
// space must get on with it.

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "io/json.h"
#include "text/grammar/builder.h"

namespace ashlar::grammar {

/// A JSON text of the value without white space; the only spelling of a constant that is no object or list.
std::string json_text(const Json& value);

class JsonValues {
 public:
  explicit JsonValues(Builder& builder) : builder_(builder) {}

  Expr space();        ///< nothing, a space, or a line break and an indent
  Expr short_space();  ///< nothing or a space
  Expr comma();        ///< ',' and white space

  /// A string of `min` to `max` characters (-1: no limit), with every escape that JSON knows; no half surrogates.
  Expr string(int64_t min = 0, int64_t max = -1);
  /// One character of the set inside a string, each in one spelling: escaped only where it must be.
  Expr char_of(const CodePointSet& set);
  /// Any string but these, each in one spelling.
  Expr string_except(std::vector<std::string> names);

  /// Exactly this value, with the white space of any other; members in the same order.
  Expr constant(const Json& value);
  Expr boolean();
  Expr number();
  /// Any object, array, value.
  Expr object();
  Expr array();
  Expr value();

 private:
  Expr once(int32_t which, Expr (JsonValues::*make)());
  Expr make_space();
  Expr make_char();
  Expr make_number();
  Expr make_object();
  Expr make_array();
  Expr make_value();
  struct Differing {
    std::vector<std::u32string> sorted;  // all different
    Expr any;                            // any characters
    std::map<CodePointSet, Rule> others;
  };
  Expr different_from(Differing& names, size_t from, size_t to, size_t at);
  Expr other_than(Differing& names, const CodePointSet& expected);

  enum : int32_t { kSpace, kChar, kNumber, kObject, kArray, kValue, kThings };
  Builder& builder_;
  std::vector<Rule> rules_ = std::vector<Rule>(kThings, UINT32_MAX);
};

}  // namespace ashlar::grammar
