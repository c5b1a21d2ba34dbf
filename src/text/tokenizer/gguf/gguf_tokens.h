// SPDX-License-Identifier: Apache-2.0
#pragma once
// The keys tokenizer.ggml.* of a GGUF file, each checked as it is read.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/weights/gguf.h"
#include "text/tokenizer/sentencepiece/token_type.h"

namespace ashlar::text {

/// Of one file, which must outlive it. Throws Error("tokenizer", ...) that names the file and the key.
class GgufTokens {
 public:
  explicit GgufTokens(const GgufFile& file);

  const JsonFields& fields() const { return fields_; }
  /// The spelling of every token, by id: from 1 to kMaxVocabulary of them.
  const std::vector<std::string_view>& all() const { return tokens_; }
  std::string text(int32_t id) const { return std::string(tokens_[static_cast<size_t>(id)]); }
  [[noreturn]] void fail(const std::string& what) const;

  /// An array of texts in valid UTF-8, bounded in their sum.
  std::vector<std::string_view> strings(const char* key) const;
  /// A number for each token; kNormal where the file has none.
  std::vector<int64_t> types() const;
  /// A finite score for each token.
  std::vector<float> scores() const;
  /// The token that a role's key names (tokenizer.ggml.ROLE_token_id), if there is the key.
  std::optional<int32_t> id(const std::string& role) const;

 private:
  void check_one_each(const char* key, size_t found) const;

  const GgufFile& file_;
  JsonFields fields_;
  std::vector<std::string_view> tokens_;
};

}  // namespace ashlar::text
