// SPDX-License-Identifier: Apache-2.0
#pragma once
// The tokens of one answer to what its client gets: text, reasoning, function calls, log-probabilities.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/event_queue.h"
#include "server/generation.h"
#include "server/service/served_model.h"
#include "text/output/output_parser.h"
#include "text/output/output_text.h"

namespace ashlar::server {

class AnswerText {
 public:
  /// `model` outlives this. `calls`: look for function calls.
  AnswerText(const ServedModel& model, const Generation& generation, int32_t index, bool starts_in_reasoning,
             bool calls);

  /// The next tokens, as deltas in the order of the answer, each of one kind. After a stop string nothing is taken.
  /// Which kind a token belongs to, and where it stands between texts, does not depend on how tokens are grouped: one
  /// whose text is held back waits for the text that follows.
  std::vector<AnswerDelta> take(const TokenChunk& chunk);
  /// The end: what was held back.
  std::vector<AnswerDelta> finish();

  bool stopped() const { return text_.stopped(); }
  const std::string& stop_string() const { return stop_string_; }
  /// The model's end or a stop id, if one came before any stop string.
  std::optional<int32_t> stop_token() const { return stop_token_; }
  int32_t tokens() const { return tokens_; }  ///< taken, the stop token included
  int32_t reasoning_tokens() const { return reasoning_tokens_; }
  /// At the end: there are function calls, all of them whole.
  bool called() const { return parser_.calls() > 0 && !parser_.cut_call(); }

 private:
  bool is_tag(int32_t id) const;
  void wait(const TokenChunk& chunk, size_t at);
  void add(text::OutputParser::Parts parts, std::vector<AnswerDelta>& deltas);
  void add(text::OutputParser::Part part, std::vector<AnswerDelta>& deltas);
  TokenPiece piece(int32_t id, const TokenLogprobs& logprobs) const;
  bool ends(int32_t id) const;

  const ServedModel& model_;
  const std::vector<std::string> stops_;
  const std::vector<int32_t> stop_ids_;
  const int32_t index_;
  const int32_t max_calls_;
  const bool skips_special_;
  const bool lists_end_;
  OutputText text_;
  text::OutputParser parser_;
  AnswerDelta waiting_;  // tokens that no delta has reported
  std::string stop_string_;
  std::optional<int32_t> stop_token_;
  int32_t tokens_ = 0;
  int32_t reasoning_tokens_ = 0;
};

/// A token, its log-probability and its likeliest rivals with their bytes.
TokenPiece token_piece(const Tokenizer& tokenizer, int32_t id, const TokenLogprobs& logprobs);

/// "call_" and 24 random hexadecimal digits.
std::string random_call_id();

}  // namespace ashlar::server
