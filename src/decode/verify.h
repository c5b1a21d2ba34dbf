#pragma once
// Acceptance: walks from the last token's row to the row of the draft that is the token chosen there, and so on; stops
// at the first token that no draft foresaw.

#include "decode/sampler.h"
#include "decode/slot_table.h"
#include "decode/step.h"

namespace ashlar {

/// Input of verify_span: `n` rows of raw logits, of the token at `start` and of drafts after it. drafts[r - 1] is the
/// token of row r, and parents[r] < r the row after whose token it stands: row r - 1 in a chain, for which parents may
/// be null. draft_q(r): the distribution that the draft of row r + 1 of a chain was drawn from, or null (see
/// Proposer::draft_distribution).
struct VerifyInput {
  float* logits = nullptr;           ///< [n, vocab]; adjusted in place
  const int32_t* choices = nullptr;  ///< [n]: where a slot needs_only_choice(), its tokens; logits are then not read
  int32_t n = 0;
  int32_t vocab = 0;
  int32_t start = 0;  ///< position of the first row
  const int32_t* drafts = nullptr;
  const int32_t* parents = nullptr;
  int32_t* path = nullptr;  ///< out, if not null: the rows that were looked at, one for each token
  const float* (*draft_q)(const void* context, int32_t j) = nullptr;
  const void* context = nullptr;
};

/// True if the token of a row is the highest raw logit and nothing else of the logits matters.
bool needs_only_choice(const Slot& slot);

/// Appends tokens to `result` and advances the slot (last_token, counts, done); the caller advances slot.length. A row
/// is looked at only if its token and every draft before it were accepted, so penalties there have seen exactly the
/// tokens that plain decoding would have. A constraint masks the row before everything else and hears of the token
/// chosen; when it leaves nothing the span ends with kError and without that token. Where its mask is still being found
/// the span is cut before the row.
void verify_span(const VerifyInput& input, Slot& slot, SamplerScratch& scratch, SpanResult& result,
                 TokenLogprobs* logprobs);

}  // namespace ashlar
