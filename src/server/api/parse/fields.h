// SPDX-License-Identifier: Apache-2.0
#pragma once
// Typed reading of the JSON objects of a request. Errors carry the JSON path of the field:
// "messages[2].content[0].type".

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/json.h"
#include "server/api/limits.h"
#include "server/api/parse/field_table.h"
#include "server/generation.h"

namespace ashlar::server {

/// One request being read. The first error is kept; readers go on with defaults after it, so that their code needs no
/// branch for each field, and the caller looks at error at the end.
struct Reading {
  const ApiLimits& limits;
  std::optional<ApiError> error = std::nullopt;

  bool ok() const { return !error.has_value(); }
  void fail(const std::string& path, const std::string& message, const std::string& code = "");
};

/// A value in few words, for messages: "a string", "the number 1.5", "an object".
std::string found(const Json& value);

/// The members of one object. Null is the same as absent. An accessor of an absent member returns nothing; of a member
/// of the wrong type or range it fails and returns nothing.
class Fields {
 public:
  /// `object` and `reading` must outlive this. Fails if it is not an object; it then reads as an empty one.
  Fields(const Json& object, std::string path, Reading& reading);

  bool has(std::string_view name);
  /// The path of a member.
  std::string path(std::string_view name) const;
  const std::string& path() const { return path_; }

  const Json* any(std::string_view name);
  /// 3.0 is an integer, as JSON Schema has it.
  std::optional<int64_t> integer(std::string_view name, int64_t low, int64_t high);
  std::optional<double> number(std::string_view name);
  std::optional<bool> boolean(std::string_view name);
  std::optional<std::string> string(std::string_view name, size_t max_bytes = SIZE_MAX);
  /// A string out of a list.
  std::optional<std::string> choice(std::string_view name, std::initializer_list<std::string_view> allowed);
  const Json* object(std::string_view name);
  const Json* array(std::string_view name, size_t max_items);
  std::vector<std::string> strings(std::string_view name, size_t max_items, size_t max_bytes);

  void fail(std::string_view name, const std::string& message);
  /// Fails with what was expected and what was found there.
  void expect(std::string_view name, const std::string& expected);
  /// The member need not be read.
  void ignore(std::string_view name);
  /// Refuses fields that the table has not for this endpoint, or has as refused; ignores the tolerated ones if they are
  /// of the type it says, and whatever asks for nothing; and fails for a required one that is absent.
  void check(Endpoint endpoint);
  /// Refuses members that no field reads, unless they are null or false.
  void finish();

 private:
  const Json* find(std::string_view name);
  void check_type(const FieldSpec& spec);
  void report_ignored(std::string_view name, const Json& value) const;

  const Json& object_;
  std::string path_;
  Reading& reading_;
  std::vector<std::string> used_;
};

/// Path of element `index` of the array at `path`.
std::string at_index(const std::string& path, size_t index);

/// An integer of [low, high] in `value`, if it is one.
std::optional<int64_t> integer_in(const Json& value, int64_t low, int64_t high);

/// Token ids of an array; fails at the first element that is none.
std::vector<int32_t> token_ids(const Json& array, const std::string& path, Reading& reading);

}  // namespace ashlar::server
