// SPDX-License-Identifier: Apache-2.0
#pragma once
// The `model` section of tokenizer.json: what makes tokens of one piece of text.

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "text/template/json_node.h"
#include "text/tokenizer/token_table.h"

namespace ashlar::text {

/// Ids must be below this; the largest vocabularies in use have about 2^18.
inline constexpr int64_t kMaxVocabulary = 1 << 20;

class TokenModel {
 public:
  virtual ~TokenModel() = default;

  /// Of the type that the section names. `byte_level`: the vocabulary is spelled in the byte alphabet. Throws Error for
  /// a type that is not supported, and what the model's constructor throws.
  static std::unique_ptr<TokenModel> make(const JsonNode& model, bool byte_level);

  /// Appends the ids of one piece (see PreTokenizer), valid UTF-8 unless the vocabulary is of bytes. Throws Error where
  /// a text needs an unknown token that the vocabulary lacks. Thread-safe.
  virtual void encode(std::string_view piece, std::vector<int32_t>& ids) const = 0;

  /// Spelling to id and back, as in the file.
  virtual const TokenTable& vocabulary() const = 0;
};

}  // namespace ashlar::text
