// SPDX-License-Identifier: Apache-2.0
#pragma once
// Figures of answers, for people and for programs.

#include <string>
#include <vector>

#include "io/json.h"
#include "session/answers.h"

namespace ashlar {

class Session;

/// Sums over answers.
struct AnswerTotals {
  int64_t answers = 0;
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;
  int64_t tokens = 0;
  int64_t verify_steps = 0;
  int64_t verified_tokens = 0;  ///< tokens that verify steps appended
  int64_t drafted = 0;
  int64_t accepted = 0;
  int64_t ngram_accepted = 0;    ///< of the accepted
  std::vector<int64_t> lengths;  ///< lengths[n]: steps that appended n tokens
  int64_t decode_tokens = 0;     ///< RequestStats::decoding(), added up
  double decode_seconds = 0;

  void add(const Answer& answer);
  /// Mean tokens per verify step, bonus included; 0 without steps.
  double mean_length() const;
  /// Tokens of the answers per pass of the target; 0 without passes.
  double tokens_per_forward() const;
  /// Tokens per second of one answer alone, the prompt's time left out.
  double decode_rate() const;
};

/// What a step of the answers is called: a verify step of chains, or a forward over a block, which has no drafts.
enum class StepKind { kVerify, kForward };

/// "62 tokens, 482.1 tokens/s, 2.61 tokens per step, prompt 17 tokens, first token after 3.2 ms". For several answers
/// `seconds` is the time of all together and the rate is theirs. Tokens per forward are the answers' own: positions
/// that were unmasked after the end of an answer do not count.
std::string stats_line(const std::vector<Answer>& answers, double seconds, StepKind kind = StepKind::kVerify);

/// Lines of "  3 | ######## 31 %": the share of steps that appended each number of tokens; `width` columns at most.
std::vector<std::string> histogram_lines(const std::vector<int64_t>& lengths, int width);

/// What the figures of a report belong to: build, model, drafter or null, device, instruction set, threads.
Json provenance(const Session& session);
Json stats_json(const Answer& answer);
/// [{"id", "token", "logprob", "top": [...]}] of an answer.
Json logprobs_json(const Answer& answer, const Tokenizer& tokenizer);

/// The JSON as one line; what is not UTF-8 becomes U+FFFD.
std::string dump_line(const Json& json);

}  // namespace ashlar
