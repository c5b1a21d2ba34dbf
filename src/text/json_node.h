#pragma once
// A place in a parsed JSON file that knows its own path, so that a wrong value is reported as
// "tokenizer.json: pre_tokenizer.pretokenizers[1].type: ...".

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/json.h"

namespace ashlar::text {

/// Parses `text`; throws Error(tag "tokenizer") naming `name` when it is not JSON, nests deeper than 64 or is not
/// UTF-8.
nlohmann::json parse_tokenizer_json(std::string_view text, std::string_view name);

/// A view: the json it was made from must outlive it. Every accessor throws Error when the value is not as asked.
class JsonNode {
 public:
  JsonNode(const nlohmann::json& value, std::string where) : value_(&value), where_(std::move(where)) {}

  const nlohmann::json& raw() const { return *value_; }
  const std::string& where() const { return where_; }
  /// What `message` quotes of the file goes through for_message first.
  [[noreturn]] void fail(std::string_view message) const;

  /// True when the field exists and is not null. The value itself must be an object.
  bool has(const char* key) const;
  JsonNode at(const char* key) const;
  /// The field, or nothing when it is absent or null.
  std::optional<JsonNode> find(const char* key) const;
  std::vector<JsonNode> items() const;

  const std::string& text() const;
  const std::string& text(const char* key) const { return at(key).text(); }
  std::string text_or(const char* key, std::string_view fallback) const;
  bool flag_or(const char* key, bool fallback) const;
  /// An integer in [0, limit).
  int64_t index(const char* key, int64_t limit) const;

 private:
  const nlohmann::json* value_;
  std::string where_;
};

}  // namespace ashlar::text
