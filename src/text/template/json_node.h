// SPDX-License-Identifier: Apache-2.0
#pragma once
// A place in a parsed JSON file that knows its own path, so that a wrong value is reported as
// "tokenizer.json: pre_tokenizer.pretokenizers[1].type: ...".

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/json.h"

namespace ashlar::text {

/// A view: the json it was made from must outlive it. Every accessor throws Error when the value is not as asked.
class JsonNode {
 public:
  JsonNode(const Json& root, std::string file) : value_(&root), where_(std::move(file)), file_bytes_(where_.size()) {}

  const Json& raw() const { return *value_; }
  const std::string& where() const { return where_; }
  /// where() without the file, whose path is not for those who send text.
  std::string place() const { return where_.substr(std::min(where_.size(), file_bytes_ + 1)); }
  /// What `message` quotes of the file goes through for_message first.
  [[noreturn]] void fail(std::string_view message) const;

  /// True when the field exists and is not null. The value itself must be an object.
  bool has(const char* key) const;
  JsonNode at(const char* key) const;
  /// The field, or nothing when it is absent or null.
  std::optional<JsonNode> find(const char* key) const;
  /// Throws Error when an array or an object has more entries.
  void check_size(size_t most) const;
  /// Of an array of at most `most`.
  std::vector<JsonNode> items(size_t most = SIZE_MAX) const;

  const std::string& text() const;
  const std::string& text(const char* key) const { return at(key).text(); }
  std::string text_or(const char* key, std::string_view fallback) const;
  bool flag_or(const char* key, bool fallback) const;
  /// An integer in [0, limit).
  int64_t index(const char* key, int64_t limit) const;

 private:
  JsonNode(const Json& value, std::string where, size_t file_bytes)
      : value_(&value), where_(std::move(where)), file_bytes_(file_bytes) {}

  const Json* value_;
  std::string where_;
  size_t file_bytes_;  // of where_
};

}  // namespace ashlar::text
