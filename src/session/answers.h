// SPDX-License-Identifier: Apache-2.0
#pragma once
// Requests to answers with text: many at once through the engine, their text handed on as it comes.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "text/tokenizer/tokenizer.h"

namespace ashlar {

/// One answer to produce. `request.sink` is set by run_answers.
struct AnswerJob {
  Request request;
  std::vector<std::string> stop;  ///< stop strings; the answer ends before the first that appears
  std::string refusal;            ///< why there is no request, if not empty: the answer is this error
};

struct Answer {
  std::string text;                     ///< whole characters, without special tokens
  std::vector<int32_t> tokens;          ///< stop token included; up to the one that completed a stop string
  std::vector<TokenLogprobs> logprobs;  ///< as many, if asked for
  std::vector<int16_t> unmask_pass;     ///< as many where a model fills blocks: the pass that fixed each token
  std::string finish;                   ///< "stop", "length", "cancelled" or "error"
  std::string stop_string;              ///< the one that ended it, if any
  std::string error;                    ///< why, for "error"
  RequestStats stats;
  bool refused = false;  ///< never started: `error` says what is wrong with the request

  double seconds() const;                   ///< from the first step to the end
  double decode_tokens_per_second() const;  ///< without the prompt's passes; 0: too few
};

/// Whether tokens over seconds say something: those of one step come at one time, and clocks have their limits.
bool enough_for_a_rate(int64_t tokens, double seconds);

/// Called with everything on the thread that calls run_answers; answers interleave.
class AnswerListener {
 public:
  virtual ~AnswerListener() = default;
  /// More text of an answer; `drafted`: from accepted drafts.
  virtual void on_text(size_t, std::string_view, bool /*drafted*/) {}
  virtual void on_end(size_t, const Answer&) {}
};

/// Runs the jobs, in order of submission as far as the engine's queue goes, and returns when all have ended. Ctrl-C
/// within an InterruptScope cancels what runs; answers that never started are then "cancelled".
std::vector<Answer> run_answers(Engine& engine, const Tokenizer& tokenizer, std::vector<AnswerJob> jobs,
                                AnswerListener& listener);

}  // namespace ashlar
