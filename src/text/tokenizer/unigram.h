// SPDX-License-Identifier: Apache-2.0
#pragma once
// A unigram language model of tokens (Kudo 2018, arXiv 1804.10959), as SentencePiece trains them: of all ways to write
// a piece as tokens, the one whose scores have the greatest sum.

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer/token_model.h"
#include "text/tokenizer/word_cache.h"

namespace ashlar::text {

class Unigram final : public TokenModel {
 public:
  /// Reads the `model` section: `vocab` of [spelling, score], whose places are the ids, `unk_id` and `byte_fallback`. A
  /// score of null says that no text has the token.
  /// Throws Error for an entry that is none of these, spellings that are there twice, empty or longer than 256 bytes,
  /// and an `unk_id` outside of the vocabulary.
  explicit Unigram(const JsonNode& model);

  /// A character that no token begins with and is alone costs 10 more than the least score. Neighbours of that kind
  /// become their bytes' tokens, where there are such, or one unknown token together. Sums are of doubles, from the
  /// left; of equal ones the way found first stays, which is the reference implementation's. Costs n times the longest
  /// token.
  void encode(std::string_view piece, std::vector<int32_t>& ids) const override;
  const TokenTable& vocabulary() const override { return vocabulary_; }

 private:
  struct Token {
    std::string_view spelling;  // of vocabulary_
    double score;
    int32_t id;
  };
  struct Step;  // the best way that ends at a byte

  template <class Found>
  void for_each_prefix(std::string_view text, const Found& found) const;
  std::vector<Step> best_ways(std::string_view piece) const;
  void append_unknown(std::string_view text, std::vector<int32_t>& ids) const;

  TokenTable vocabulary_;
  std::vector<Token> tokens_;                // by spelling, so that those with a common beginning are neighbours
  std::array<uint32_t, 257> first_bytes_{};  // tokens_ whose spelling begins with a byte: [first_bytes_[b], [b + 1])
  std::array<int32_t, 256> byte_tokens_;     // ids of <0x00>...<0xFF>, -1: none
  std::optional<int32_t> unknown_;
  double unknown_score_ = 0;
  bool byte_fallback_;
  std::unique_ptr<WordCache> cache_;
};

}  // namespace ashlar::text
