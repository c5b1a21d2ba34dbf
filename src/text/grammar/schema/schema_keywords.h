// SPDX-License-Identifier: Apache-2.0
#pragma once
// JSON schemas before they become grammars: which keywords are understood, what they mean for a value, and where a $ref
// leads.

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "io/json.h"

namespace ashlar::grammar {

/// Keywords of our own, which no client can send since they begin with a byte that is not UTF-8: several patterns at
/// once; patterns and multiples that must not be; values that are left out; alternatives that stand for anyOf where
/// that is taken, and for a oneOf whose alternatives exclude each other. All hold lists.
inline constexpr char kInternal = '\xff';
inline constexpr const char* kPatterns = "\xffpatterns";
inline constexpr const char* kNotPatterns = "\xffnot patterns";
inline constexpr const char* kMultiples = "\xffmultiples";
inline constexpr const char* kNotMultiples = "\xffnot multiples";
inline constexpr const char* kExcluded =
    "\xff"
    "excluded";
inline constexpr const char* kExclusive =
    "\xff"
    "exclusive";

/// What `not` cannot be rewritten for.
struct Unsupported : Error {
  using Error::Error;
};

/// Throws Error("grammar") that names `pointer` (as "#/properties/a") and the problem.
[[noreturn]] void schema_error(const std::string& pointer, const std::string& problem);

/// `pointer` with one more step, escaped.
std::string pointer_to(const std::string& pointer, std::string_view step);

/// Keywords that say nothing about values.
bool is_annotation(std::string_view key);

/// Throws for keywords that could not be honoured; annotations pass. `schema` is an object.
void check_keywords(const Json& schema, const std::string& pointer);

/// Where a local $ref ("#", "#/$defs/x") leads; throws if nowhere.
const Json& follow_ref(const Json& root, const std::string& ref, const std::string& pointer);

/// The names of a schema's "type", which is one or a list.
Json type_list(const Json& type);

/// Whether the schema says anything about values besides `key`.
bool has_more_than(const Json& schema, std::string_view key);

/// Whether one of its keywords restricts values of this one's type.
bool restricts(const Json& schema, const Json& value);

/// The texts under a key, one or a list, that have to be strings.
std::vector<std::string> texts_of(const Json& schema, const char* key, const std::string& pointer);

/// The list under kExcluded, or an empty one.
const Json& excluded_values(const Json& schema);

/// As JSON schema compares: members in any order, 1 and 1.0 the same.
bool equal(const Json& a, const Json& b);

/// Whether the value is of the type that a schema's "type" (a name or a list) asks for.
bool has_type(const Json& value, const Json& type);

/// Whether it is of a type that the schema allows, `nullable` included.
bool has_type_of(const Json& value, const Json& schema);

}  // namespace ashlar::grammar
