// SPDX-License-Identifier: Apache-2.0
#pragma once
// The tokens of a prompt with their log-probabilities, as they come.

#include <string>
#include <string_view>
#include <vector>

#include "engine/event_queue.h"
#include "server/generation.h"
#include "text/tokenizer/tokenizer.h"

namespace ashlar::server {

class PromptTokens {
 public:
  /// Of a request that wants none: nothing.
  PromptTokens() = default;
  /// Lists `ids` from `from` on; `text` is the prompt as a client sees it. The tokenizer outlives this.
  PromptTokens(const Tokenizer& tokenizer, std::vector<int32_t> ids, std::string text, int32_t from);

  void take(const PromptChunk& chunk);
  /// All are there, of those that are wanted at all.
  bool complete() const { return pieces_.size() == wanted_; }
  std::vector<TokenPiece>& pieces() { return pieces_; }

 private:
  void add(int32_t id, const TokenLogprobs& logprobs, int32_t rank);

  const Tokenizer* tokenizer_ = nullptr;
  std::vector<int32_t> ids_;
  std::string text_;
  size_t at_ = 0;  // bytes of text_ before the next token
  size_t wanted_ = 0;
  std::vector<TokenPiece> pieces_;
};

}  // namespace ashlar::server
