// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a Tokenizer is made of; private to tokenizer.cc and detokenizer.cc.

#include <memory>
#include <string>
#include <vector>

#include "text/tokenizer/steps/added_tokens.h"
#include "text/tokenizer/steps/normalizer.h"
#include "text/tokenizer/steps/post_processor.h"
#include "text/tokenizer/steps/pretokenizer.h"
#include "text/tokenizer/steps/token_decoder.h"
#include "text/tokenizer/token_model.h"
#include "text/tokenizer/tokenizer.h"

namespace ashlar {

struct Tokenizer::Parts {
  struct Token {
    std::string content;  // spelling in the file; empty: no token has this id
    std::string piece;    // what it decodes to
    bool special = false;
  };

  explicit Parts(const text::JsonNode& root);

  bool known(int32_t id) const {
    return id >= 0 && static_cast<size_t>(id) < tokens.size() && !tokens[static_cast<size_t>(id)].content.empty();
  }

  text::Normalizer normalizer;
  text::PreTokenizer pre_tokenizer;
  std::unique_ptr<text::TokenModel> model;
  text::PostProcessor post_processor;
  text::TokenDecoder decoder;
  text::AddedTokenMatcher raw_matcher;         // added tokens found in the text as it is
  text::AddedTokenMatcher normalized_matcher;  // and those found after normalisation
  text::TokenTable added_ids;
  std::vector<Token> tokens;  // by id

 private:
  void add_tokens(const text::JsonNode& node);
};

}  // namespace ashlar
