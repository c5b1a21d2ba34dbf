// SPDX-License-Identifier: Apache-2.0
#pragma once
// A tokenizer.model: a message ModelProto of SentencePiece (sentencepiece_model.proto) in protocol buffers' encoding.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ashlar::text {

/// What a model says that decides ids, with the values that its specification has for what is left out.
struct SentencePieceModel {
  struct Piece {
    std::string text;
    float score = 0;
    int64_t type = 1;  ///< a TokenType
  };
  std::vector<Piece> pieces;  ///< by id
  // trainer_spec
  int64_t kind = 1;            ///< 1: unigram, 2: BPE
  bool byte_fallback = false;  ///< what has no piece is bytes
  bool treats_whitespace_as_suffix = false;
  int64_t bos_id = 1, eos_id = 2;  ///< negative: there is none
  // normalizer_spec
  std::string character_map;   ///< precompiled; empty: characters stay as they are
  bool adds_prefix = true;     ///< a space in front of a text
  bool removes_spaces = true;  ///< but for single ones between other characters
  bool escapes_spaces = true;  ///< they are written as U+2581
  bool denormalizes = false;   ///< changes characters of what is decoded
};

/// Throws Error("tokenizer", ...) that names `file` for bytes that are no such message, no pieces or more than
/// kMaxVocabulary, texts that are empty or no UTF-8, scores that are not finite, and types that are none.
SentencePieceModel parse_sentencepiece(std::string_view bytes, const std::string& file);

}  // namespace ashlar::text
