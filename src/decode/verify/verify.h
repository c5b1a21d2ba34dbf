// SPDX-License-Identifier: Apache-2.0
#pragma once
// Acceptance: walks from the last token's row to the row of the draft that is the token chosen there, and so on; stops
// at the first token that no draft predicted.

#include <cstdint>
#include <span>
#include <vector>

#include "decode/slot_table.h"
#include "decode/step.h"
#include "decode/verify/constrain.h"
#include "device/ops.h"

namespace ashlar {

/// What a span verifies: `n` rows of raw logits, of the token at `start` and of drafts after it. drafts[r - 1] is the
/// token of row r, and parents[r] < r the row after whose token it stands: row r - 1 in a chain, for which parents may
/// be null.
struct VerifyInput {
  int32_t first_row = 0;  ///< of the logits
  int32_t n = 0;
  int32_t start = 0;  ///< position of the first row
  const int32_t* drafts = nullptr;
  const int32_t* parents = nullptr;
  int32_t* path = nullptr;  ///< out, if not null: the rows that were looked at, one for each token
  /// [n - 1]: the distributions that the drafts of a chain were drawn from (Proposer::draft_distribution), null for
  /// those that were certain; null: all were.
  const float* const* draft_q = nullptr;
};

/// True if the token of a row is the highest raw logit and nothing else of the logits matters.
bool needs_only_choice(const Slot& slot);

/// The walk of one span. Appends tokens to its result and advances the slot (last_token, counts, done); the caller
/// advances slot.length. A row counts only if its token and every draft before it were accepted, so penalties there
/// have seen exactly the tokens that plain decoding would have. A constraint masks the row before everything else and
/// hears of the token chosen; when it leaves nothing the span ends with kError and without that token. Where its mask
/// is still being found the span is cut before the row.
class SpanWalk {
 public:
  void reserve(int32_t vocab) { allowed_.reserve((static_cast<size_t>(vocab) + 31) / 32); }

  /// What is pointed to must live until the walk has ended. logprobs: [kMaxWidth], if they are wanted.
  void begin(const VerifyInput& input, int32_t vocab, Slot& slot, SpanResult& result, TokenLogprobs* logprobs);
  /// Nothing to do for this span.
  void skip() { ended_ = true; }
  bool ended() const { return ended_; }
  bool is_constrained() const { return slot_->constraint != nullptr; }

  /// For a slot that needs_only_choice(): the tokens of all rows, -1 where no logit is a number.
  void take_highest(std::span<const int32_t> tokens);

  /// Otherwise by turns, until it has ended: finds the mask of the next row, of walks with constraints (any thread);
  /// asks about the next row and up to `most` - 1 of those after it, as if drafts were accepted; learns the answers.
  void find_mask();
  void ask(int32_t most, std::vector<RowRequest>& requests);
  void learn(std::span<const RowChoice> choices);
  int32_t n_asked() const { return n_asked_; }

 private:
  RowRequest request_for(int32_t row, int32_t index) const;
  void take(const RowChoice& choice);
  void end(SpanEnd why);
  int32_t next_row(int32_t row, int32_t token) const;

  VerifyInput input_;
  int32_t vocab_ = 0;
  Slot* slot_ = nullptr;
  SpanResult* result_ = nullptr;
  TokenLogprobs* logprobs_ = nullptr;
  bool ended_ = true;
  int32_t row_ = 0;  // whose token comes next; -1: no draft predicted the newest token
  int32_t n_asked_ = 0;
  int32_t asked_[kMaxWidth] = {};    // rows
  int32_t assumed_[kMaxWidth] = {};  // [i]: the draft of row asked_[i + 1]
  Masked masked_ = Masked::kNo;
  std::vector<uint32_t> allowed_;
};

/// Runs walks to their ends, all by turns: few rows a walk where many walk, more where that keeps threads busy.
class Verifier {
 public:
  void reserve(int32_t max_rows, int32_t max_spans);
  /// logits: [rows, vocab], overwritten.
  void verify(Ops& ops, Tensor logits, std::span<SpanWalk> walks);

 private:
  void find_masks(Ops& ops, std::span<SpanWalk> walks);

  std::vector<SpanWalk*> constrained_;
  std::vector<RowRequest> requests_;
  std::vector<RowChoice> choices_;
};

}  // namespace ashlar
