// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the engine asks of a decoder in one step, and what comes back. Plain data: it crosses from the engine's thread
// to the device's. One step is a list of spans: rows of one sequence each.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/check.h"
#include "decode/policy/row_budget.h"
#include "decode/verify/prompt_token.h"
#include "device/rows.h"
#include "device/tensor.h"

namespace ashlar {

/// Most tokens that one span decides: rows of a verify span (last token and drafts), positions of a block.
inline constexpr int32_t kMaxWidth = 64;

/// How a decode span drafts: what Decoder::plan() decided. It costs or saves time and changes no token.
struct DraftPlan {
  int32_t width = 1;            ///< most rows to verify: the last token and its drafts
  int32_t most = 1;             ///< rows of a tree before the least likely ones are left out
  int32_t draft_rows = 0;       ///< rows of the proposer's block, where that is more
  bool proposes = false;        ///< drafts are the proposer's; else those of `ids`, where width is above 1
  int32_t ids[kMaxWidth] = {};  ///< ids[k]: the k-th draft, from 1
};

/// Rows of one sequence in one step.
struct Span {
  int32_t slot = 0;
  /// Prefill: the ids of these rows, at positions start, start + 1, ... Null for a decode span, whose last token and
  /// position only the device knows.
  const int32_t* prompt = nullptr;
  int32_t start = 0;
  int32_t n_rows = 0;              ///< prefill: rows; decode: most rows it may use
  bool samples = true;             ///< prefill: whether the last row yields the first token (the last chunk)
  const int32_t* pages = nullptr;  ///< the sequence's page table, on the host; entries that are there never change
  int32_t n_pages = 0;             ///< entries that are there
  /// Prefill: rows [score_from, score_to) of the span also say how likely the next token of the prompt is, which stands
  /// after prompt[row] for the last row, too.
  int32_t score_from = 0, score_to = 0;
  /// Prefill: rows [hidden_from, hidden_to) of the span also report their hidden states.
  int32_t hidden_from = 0, hidden_to = 0;
  /// Prefill of a model with recurrent layers: the snapshot of their states that the rows begin with (-1: with those of
  /// the slot, or none at position 0), and rows whose states become snapshots.
  int32_t restores = -1;
  StateSpan::Save saves[2] = {};
  DraftPlan drafts = {};
};

struct StepPlan {
  std::vector<Span> spans;  // reserved once; of a sequence one, or a prefill span and after it a decode span
  int32_t n_rows = 0;       ///< upper bound over all spans
  RowBudget budget;
  bool keeps_context = true;  ///< false: drafts are so far from paying that a drafter's context is not worth keeping up
};

enum class SpanEnd : uint8_t {
  kRunning,
  kStop,       ///< the newest token is a stop id
  kLength,     ///< the sequence reached its limit
  kError,      ///< no token satisfies the request's constraint; the span ends before it
  kNoNumbers,  ///< the model's logits are not numbers; the span ends before them
  kFailed,     ///< SpanResult::error, of this sequence alone; tokens and positions so far are right
};

/// What became of one span.
struct SpanResult {
  int32_t n_tokens = 0;   ///< tokens appended to the sequence
  int32_t n_decided = 0;  ///< tokens that this step decided, wherever they stand
  int32_t computed = 0;   ///< positions from the start whose K and V are final
  int32_t n_drafted = 0;
  int32_t n_accepted = 0;        ///< drafts among the tokens
  int32_t n_ngram_accepted = 0;  ///< of them, those that were n-gram drafts (decode/propose/ngram_drafts.h)
  int32_t n_rows = 0;            ///< that the target computed
  int32_t n_draft_rows = 0;      ///< that the proposer computed; 0: the drafts were not its own
  int32_t n_forced = 0;          ///< drafts that a constraint dictated
  /// What the proposer thought of its drafts, the likeliest path first; none where it does not say. `expected`: of
  /// those that were verified, how many it expected to be accepted.
  int32_t n_chances = 0;
  float chances[kMaxWidth] = {};
  double expected = 0;
  int32_t n_scored = 0;      ///< tokens of the prompt that got log-probabilities
  int32_t first_scored = 0;  ///< then: index of the first of them in StepResult::prompt_tokens
  int32_t n_hidden = 0;      ///< rows that reported their hidden states
  int32_t first_hidden = 0;  ///< then: which row of StepResult::hidden the first of them is
  SpanEnd end = SpanEnd::kRunning;
  std::string error;    ///< of kFailed
  bool active = false;  ///< false: the span had no rows: the sequence had ended, or waits for its constraint's mask
  bool cut = false;     ///< a mask was missing where more tokens could have been chosen; n_decided 0: there was no pass
  int32_t tokens[kMaxWidth] = {};
  /// For tokens of a block: the pass over the block, from 0, that decided each. -1 in the first place: not known.
  int16_t unmask_pass[kMaxWidth] = {-1};
  int32_t at = 0;    ///< then: where in its block the first of the tokens stands
  int32_t pass = 0;  ///< passes that the block that is open after the step has had
};

/// What a prefill row reports of its hidden states: the residual stream after some of the layers, one after another.
struct HiddenRow {
  int32_t layers = 0;  ///< 0: nothing
  int32_t size = 0;    ///< numbers of each
  DType type = DType::kF32;

  size_t bytes() const { return static_cast<size_t>(layers) * static_cast<size_t>(size) * bytes_of(type); }
};

struct StepTimes {
  int64_t draft_ns = 0;    ///< proposing, first row to last draft
  int64_t verify_ns = 0;   ///< the target's forward with its head
  int64_t sample_ns = 0;   ///< sampling and acceptance
  int64_t context_ns = 0;  ///< feeding the drafter what was accepted
  int64_t total_ns() const { return draft_ns + verify_ns + sample_ns + context_ns; }
};

struct StepResult {
  std::vector<SpanResult> spans;           // as the plan's
  std::vector<TokenLogprobs> logprobs;     // [spans, kMaxWidth]; filled where asked for
  std::vector<PromptToken> prompt_tokens;  // [rows]: of all spans, as far as asked for
  std::vector<std::byte> hidden;           // [rows] of HiddenRow::bytes(), likewise
  StepTimes times;

  /// `hidden_bytes`: of a row's hidden states.
  void reserve(int32_t max_spans, int32_t max_rows, size_t hidden_bytes = 0) {
    hidden.resize(static_cast<size_t>(max_rows) * hidden_bytes);
    prompt_tokens.resize(max_rows);
    spans.resize(max_spans);
    logprobs.resize(static_cast<size_t>(max_spans) * kMaxWidth);
  }
  TokenLogprobs& logprob(size_t span, int32_t token) { return logprobs[span * kMaxWidth + token]; }
};

}  // namespace ashlar
