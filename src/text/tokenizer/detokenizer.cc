// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/detokenizer.h"

#include "text/tokenizer/tokenizer_parts.h"

namespace ashlar {

struct Detokenizer::State {
  text::TokenDecoder::State decoder;
};

Detokenizer::Detokenizer(const Tokenizer& tokenizer, bool skip_special_tokens)
    : tokenizer_(&tokenizer),
      skip_special_tokens_(skip_special_tokens),
      state_(std::make_unique<State>(State{tokenizer.parts_->decoder.start()})) {}
Detokenizer::Detokenizer(Detokenizer&&) noexcept = default;
Detokenizer& Detokenizer::operator=(Detokenizer&&) noexcept = default;
Detokenizer::~Detokenizer() = default;

std::string Detokenizer::push(int32_t id, bool keep) {
  const Tokenizer::Parts& parts = *tokenizer_->parts_;
  std::string text;
  if (!parts.known(id)) return text;
  const Tokenizer::Parts::Token& token = parts.tokens[static_cast<size_t>(id)];
  if (skip_special_tokens_ && token.special && !keep) return text;
  parts.decoder.push(token.piece, token.content, state_->decoder, text);
  return text;
}

std::string Detokenizer::flush() {
  const Tokenizer::Parts& parts = *tokenizer_->parts_;
  std::string text;
  parts.decoder.flush(state_->decoder, text);
  state_->decoder = parts.decoder.start();
  return text;
}

}  // namespace ashlar
