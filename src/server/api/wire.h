// SPDX-License-Identifier: Apache-2.0
#pragma once
// Pieces of JSON that several formats share.

#include <string>
#include <vector>

#include "server/generation.h"

namespace ashlar::server {

/// One line; whatever is not UTF-8 becomes U+FFFD.
std::string to_line(const Json& value);
/// An event of a stream.
std::string event(const Json& data);
std::string event(const std::string& name, const Json& data);
inline constexpr const char* kDone = "data: [DONE]\n\n";

/// {prompt_tokens, completion_tokens, total_tokens, ..._details}
Json openai_usage(const Usage& usage);
/// The usage of each answer of a stream so far, for the chunks of those who want it there. Which of the prompt's tokens
/// were cached is known at the end only.
class RunningUsage {
 public:
  /// Of the prompt, before the first answer begins.
  void begin(const Usage& prompt) { begun_.prompt_tokens = prompt.prompt_tokens; }
  void add(const AnswerDelta& delta);
  void end(const AnswerEnd& end) { answer(end.index).completion_tokens = end.tokens; }
  Json of(int32_t index) const {
    const auto at = static_cast<size_t>(index);
    return openai_usage(at < of_.size() ? of_[at] : begun_);
  }

 private:
  Usage& answer(int32_t index);

  Usage begun_;            // of an answer that has just begun
  std::vector<Usage> of_;  // as many as have been heard of
};

/// {error: {message, type, param, code}}
Json openai_error(const ApiError& error);
/// "stop", "length" or "tool_calls". An answer that was cut short by the server counts as too long.
const char* openai_reason(AnswerEnd::Reason reason);
/// {id, type, function: {name, arguments}}
Json openai_call(const ToolCallDelta& call);

/// `block` of a chunk, where the request wants it: {tokens, drafted}, and where tokens come by blocks {step, at}. One
/// for each delta, so that sums are right.
Json block_of(const AnswerDelta& delta);
/// Whether a delta without text has something to report.
bool reports_tokens(const AnswerDelta& delta, bool stream_blocks);

/// A token's text: broken characters become U+FFFD.
std::string token_text(const std::string& bytes);
/// Finite, since JSON has no infinity.
double finite_logprob(float value);
/// {token, logprob, bytes, top_logprobs: [...]}, and step where there is one
Json token_entry(const TokenPiece& piece);
Json token_entries(const std::vector<TokenPiece>& pieces);

/// vLLM's prompt_logprobs: [null, {id: {logprob, rank, decoded_token}}, ...], of each token itself and the `top`
/// likeliest.
Json prompt_entries(const std::vector<TokenPiece>& pieces, int32_t top);

/// Sums figures over the answers of a request.
void add_stats(RequestStats& sum, const RequestStats& stats);
/// Whether these are figures of a model that fills blocks.
inline bool counts_blocks(const RequestStats& stats) { return !stats.unmasked_in_pass.empty(); }
/// {speculative_decoding: {drafted, accepted, ngram_accepted, verify_steps, mean_length, drafted_per_position,
/// accepted_per_position}}, for models that fill blocks {dllm: {forwards, tokens_per_forward, blocks,
/// decided_per_forward, unmasked_in_pass}}, and the names of some in the version before; next to it decode_seconds,
/// from the first token of any answer (of such models: from the prompt's end) to the end of the last
Json metrics(const RequestStats& sum);

}  // namespace ashlar::server
