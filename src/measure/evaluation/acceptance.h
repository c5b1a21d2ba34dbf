// SPDX-License-Identifier: Apache-2.0
#pragma once
// How many tokens a verify step yields, in every spelling that papers and engines use.

#include <cstdint>
#include <vector>

#include "engine/request.h"
#include "measure/statistics.h"

namespace ashlar {

/// Sums over requests. A "verify step" is one decode step of one request: 1 + drafts rows through the target, of which
/// it keeps the accepted drafts and one token of its own (the bonus). The prefill, which yields the first token, is not
/// one.
class AcceptanceTally {
 public:
  void add(const RequestStats& stats);

  int64_t prompts() const { return prompts_; }
  int64_t steps() const { return steps_; }
  int64_t generated() const { return generated_; }
  int64_t drafted() const { return drafted_; }
  int64_t accepted() const { return accepted_; }

  // The three definitions of the mean acceptance length. All count the bonus token. A request without a verify
  // step (its answer was one token) takes part in none of them.

  /// Tokens of all verify steps / verify steps, prompts pooled: long answers weigh more (vLLM). The error takes prompts
  /// as the independent unit.
  Ratio acceptance_length_per_step() const { return pooled_ratio(prompt_tokens_, prompt_steps_); }
  /// Mean over prompts of each prompt's own acceptance length: every prompt weighs the same (the DFlash paper's
  /// benchmark).
  Ratio acceptance_length_per_prompt() const;
  /// Generated tokens / verify steps, the prefill's first token counted above but not below: by at most 1 / steps per
  /// prompt higher than acceptance_length_per_step (SGLang's spec_accept_length, pooled).
  Ratio acceptance_length_generated() const { return pooled_ratio(prompt_generated_, prompt_steps_); }

  /// What acceptance_length_per_step() is more than `before`'s, whose prompts are the same in the same order, with the
  /// same answers.
  Ratio gain_over(const AcceptanceTally& before) const {
    return paired_gain({before.prompt_tokens_, before.prompt_steps_}, {prompt_tokens_, prompt_steps_});
  }

  /// By draft position 1, 2, ...: the share of steps, of those that proposed that position, which accepted it. A
  /// position counts as accepted only if all before it were.
  std::vector<double> unconditional() const;
  /// The same among the steps that accepted the position before: unconditional[k] / unconditional[k - 1], at most 1;
  /// NaN where fewer than `least` steps accepted the position before.
  std::vector<double> conditional(int64_t least = 1) const;
  /// Share of steps that yielded 1, 2, ... tokens.
  std::vector<double> histogram() const;
  /// The counts of histogram().
  const std::vector<int64_t>& length_counts() const { return lengths_; }

  /// Tokens per second without the prompts' passes (RequestStats::decoding), requests one after the other or side by
  /// side; 0 if unknown.
  double decode_tokens_per_second() const;

 private:
  int64_t prompts_ = 0, steps_ = 0, generated_ = 0, drafted_ = 0, accepted_ = 0;
  int64_t decode_tokens_ = 0, decode_ns_ = 0;
  std::vector<int64_t> accepted_at_, drafted_at_;
  std::vector<int64_t> lengths_;                                         // [n - 1]: steps that yielded n tokens
  std::vector<double> prompt_tokens_, prompt_generated_, prompt_steps_;  // of prompts with a verify step
};

}  // namespace ashlar
