// SPDX-License-Identifier: Apache-2.0
#pragma once
// What goes into the engine and what comes out of it. The engine speaks token ids; text is its callers' business.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "decode/check_sampling.h"
#include "decode/constraint.h"
#include "decode/method_choice.h"
#include "decode/step.h"
#include "decode/verify/prompt_token.h"

namespace ashlar {

enum class FinishReason : uint8_t {
  kStop,       ///< a stop id was produced
  kLength,     ///< max_tokens or the context limit was reached, or the prompt was all that was asked for
  kCancelled,  ///< cancel() was called
  kError,      ///< see EndEvent::error
};

const char* name_of(FinishReason reason);

/// Figures of one request.
struct RequestStats {
  int32_t prompt_tokens = 0;
  int32_t cached_tokens = 0;  ///< of the prompt, found in the prefix cache at first admission
  int32_t generated_tokens = 0;
  int32_t preemptions = 0;
  int32_t verify_steps = 0;  ///< decode spans that ran for this request: passes of the target
  int32_t drafted = 0;
  int32_t accepted = 0;
  int32_t ngram_accepted = 0;  ///< of the accepted, those that followed when the same tokens came before
  /// accepted_at[k]: steps in which at least k + 1 drafts were accepted; drafted_at[k]: steps that proposed at least k
  /// + 1.
  std::vector<int32_t> accepted_at, drafted_at;
  /// lengths[n]: decode spans that decided n tokens (the bonus of a chain included).
  std::vector<int32_t> lengths;
  /// Where tokens of a block are unmasked in any order, else empty: the blocks of the answer, and tokens of it by the
  /// pass over their block that unmasked them; the last entry counts later passes too.
  int32_t blocks = 0;
  std::vector<int32_t> unmasked_in_pass;
  int64_t submitted_ns = 0, admitted_ns = 0, first_token_ns = 0, finished_ns = 0;  ///< monotonic; 0: never
  int64_t prompt_done_ns = 0;  ///< the prompt's last pass has come back; the first time, if it was preempted

  /// Mean tokens per verify step, bonus included.
  double mean_length() const;
  /// The answer without the prompt's passes: after the first token, which they sample; after the prompt where tokens of
  /// a block are unmasked in any order, since the first ones come together and take passes of their own.
  struct Decoding {
    int64_t tokens = 0;
    int64_t ns = 0;
  };
  Decoding decoding() const;
};

/// New tokens of a request, in order. Views are valid during the call only.
struct TokensEvent {
  const int32_t* tokens = nullptr;
  int32_t n = 0;
  int32_t n_drafted = 0;                    ///< how many of them came from accepted drafts (the first ones)
  const TokenLogprobs* logprobs = nullptr;  ///< [n], or null if not asked for
  /// Where tokens of a block are unmasked in any order: the pass over the block, from 0, that unmasked each,
  /// [n]. Or null.
  const int16_t* unmask_pass = nullptr;
  int32_t at = 0;  ///< then: where in their block the first of them stands; the others follow it
};

/// Log-probabilities of tokens of the prompt, in order. Views are valid during the call only.
struct PromptEvent {
  int32_t first = 0;  ///< which token of the prompt the first of them is
  int32_t n = 0;
  const PromptToken* tokens = nullptr;  ///< [n]
};

/// Hidden states of rows of the prompt, in order. Views are valid during the call only.
struct HiddenEvent {
  int32_t first = 0;  ///< which token of the prompt the first of them is of
  int32_t n = 0;
  HiddenRow row;                    ///< what each row has
  const std::byte* rows = nullptr;  ///< [n, row.bytes()]
};

struct EndEvent {
  FinishReason reason = FinishReason::kStop;
  std::string error;
  RequestStats stats;
  bool of_request = false;  ///< what is wrong is what was asked for: a constraint that nothing satisfies
};

/// Receives a request's events on the engine's thread: on_prompt for all that Request::prompt_logprobs asks for, any
/// number of on_tokens, then exactly one on_end. Must not block and must not call the engine, except cancel(). A sink
/// that throws before the end ends the request with an error.
class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void on_prompt(const PromptEvent& /*event*/) {}
  /// For all of the prompt's tokens, if Request::hidden_states asks for it; before the end and the answer's last
  /// tokens.
  virtual void on_hidden(const HiddenEvent& /*event*/) {}
  virtual void on_tokens(const TokensEvent& event) = 0;
  /// Needs no memory, since a request whose end is never reported waits for ever: the room is made with the sink, the
  /// event is moved.
  virtual void on_end(EndEvent event) noexcept = 0;
};

/// Log-probabilities that a request wants of its own prompt, each given the tokens before it: of the raw logits, like
/// those of an answer. The prefix cache yields at most what is before the first of their rows.
struct PromptLogprobs {
  int32_t from = -1;  ///< the first token that gets one; token 0 has none, since no row precedes it. -1: none
  int32_t top = 0;    ///< also this many of the likeliest tokens, at most kMaxTopLogprobs
};

struct Request {
  std::vector<int32_t> prompt;
  PromptLogprobs prompt_logprobs;
  bool hidden_states = false;  ///< of every token of the prompt; the prefix cache yields none of it
  bool prompt_only = false;    ///< the request ends with its prompt; max_tokens means nothing
  SamplingParams sampling;
  int32_t max_tokens = 0;         ///< 0: up to the context limit
  std::vector<int32_t> stop_ids;  ///< end the answer; they are part of it
  int32_t width = 0;              ///< most tokens a pass may decide; 0: the method's own. 1: plain decoding
  MethodChoice choice;            ///< how to decode, where the method leaves a choice
  uint64_t salt = 0;              ///< prefix-cache tenant
  std::shared_ptr<EventSink> sink;
  std::shared_ptr<TokenConstraint> constraint;  ///< one object for each request; null: anything goes
};

using RequestId = uint64_t;

}  // namespace ashlar
