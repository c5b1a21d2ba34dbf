// SPDX-License-Identifier: Apache-2.0
#pragma once
// Byte-pair encoding (Sennrich et al. 2016) with the model section of tokenizer.json: vocabulary, ranked merges (or, of
// SentencePiece's, scores that rank them) and options.

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer/merge_table.h"
#include "text/tokenizer/token_model.h"
#include "text/tokenizer/word_cache.h"

namespace ashlar::text {

class Bpe final : public TokenModel {
 public:
  /// Reads the `model` section; `byte_level` says that the vocabulary is spelled in the byte alphabet. Throws Error on
  /// ids that collide or are out of range and on merges whose parts or result the vocabulary
  /// lacks.
  Bpe(const JsonNode& model, bool byte_level);

  /// Appends the ids of one piece (see PreTokenizer): characters, or bytes when byte_level, merged by rank, lowest
  /// first, leftmost of equals. Costs O(n log n) for n units. A unit that the vocabulary lacks becomes byte tokens or
  /// the unknown token, or, without either, nothing. Thread-safe.
  void encode(std::string_view piece, std::vector<int32_t>& ids) const override;
  const TokenTable& vocabulary() const override { return vocabulary_; }

 private:
  void read_vocabulary(const JsonNode& node);
  void read_merges(const JsonNode& node);
  void index_units();
  std::optional<int32_t> find(std::string_view spelling) const { return vocabulary_.find(spelling); }
  // A unit is a character or, when byte_level, a byte; `first` and `last` say where in the piece it stands.
  std::string unit_spelling(std::string_view unit) const;
  int32_t unit_id(std::string_view unit, bool first, bool last) const;
  bool append_byte_tokens(std::string_view unit, bool first, bool last, std::vector<int32_t>& symbols) const;
  void split_units(std::string_view piece, std::vector<int32_t>& symbols) const;

  bool byte_level_;
  bool ignore_merges_;
  bool byte_fallback_;
  bool fuse_unknown_;
  std::string prefix_;  // continuing_subword_prefix
  std::string suffix_;  // end_of_word_suffix
  bool has_unknown_;
  int32_t unknown_ = -1;  // -1: named, but not in the vocabulary; an error once a text needs it

  TokenTable vocabulary_;
  TokenTable words_;                      // ignore_merges on a byte-level vocabulary: bytes to id
  std::array<int32_t, 256> byte_units_;   // id of a one-byte unit without prefix and suffix, -1: none
  std::array<int32_t, 256> byte_tokens_;  // ids of <0x00>...<0xFF>, -1: none
  MergeTable merges_;
  std::unique_ptr<WordCache> cache_;
};

}  // namespace ashlar::text
