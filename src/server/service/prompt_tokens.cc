// SPDX-License-Identifier: Apache-2.0
#include "server/service/prompt_tokens.h"

#include <algorithm>
#include <utility>

#include "server/service/answer_text.h"

namespace ashlar::server {

PromptTokens::PromptTokens(const Tokenizer& tokenizer, std::vector<int32_t> ids, std::string text, int32_t from)
    : tokenizer_(&tokenizer), ids_(std::move(ids)), text_(std::move(text)) {
  const size_t first = std::min(static_cast<size_t>(from), ids_.size());
  wanted_ = ids_.size() - first;
  if (first == 0 && wanted_ > 0) add(ids_.front(), {}, 0);
}

void PromptTokens::take(const PromptChunk& chunk) {
  for (size_t i = 0; i < chunk.tokens.size(); ++i) {
    add(ids_[static_cast<size_t>(chunk.first) + i], chunk.tokens[i].logprobs, chunk.tokens[i].rank);
  }
}

// Special tokens that the tokenizer added are not in the client's text.
void PromptTokens::add(int32_t id, const TokenLogprobs& logprobs, int32_t rank) {
  TokenPiece& piece = pieces_.emplace_back(token_piece(*tokenizer_, id, logprobs));
  piece.rank = rank;
  piece.has_logprob = rank > 0;
  piece.in_text = !tokenizer_->is_special(id) || std::string_view(text_).substr(at_).starts_with(piece.bytes);
  if (piece.in_text) at_ = std::min(at_ + piece.bytes.size(), text_.size());
}

}  // namespace ashlar::server
