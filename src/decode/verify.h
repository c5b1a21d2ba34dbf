#pragma once
// Acceptance: walks the rows of one span in order, chooses each token, and stops at the first that the drafts did not
// foresee.

#include "decode/sampler.h"
#include "decode/slot_table.h"
#include "decode/step.h"

namespace ashlar {

/// Input of verify_span: `n` rows of raw logits for tokens of index start + 1, start + 2, ...; drafts[j] is the draft
/// that row j judges, for j < n - 1. draft_q(j): the distribution it was drawn from, or null (see
/// Proposer::draft_distribution).
struct VerifyInput {
  float* logits = nullptr;           ///< [n, vocab]; adjusted in place
  const int32_t* choices = nullptr;  ///< [n]: where a slot needs_only_choice(), its tokens; logits are then not read
  int32_t n = 0;
  int32_t vocab = 0;
  int32_t start = 0;  ///< position of the first row
  const int32_t* drafts = nullptr;
  const float* (*draft_q)(const void* context, int32_t j) = nullptr;
  const void* context = nullptr;
};

/// True if the token of a row is the highest raw logit and nothing else of the logits matters.
bool needs_only_choice(const Slot& slot);

/// Appends tokens to `result` and advances the slot (anchor, counts, done); the caller advances slot.length. Row j is
/// looked at only if every draft before it was accepted, so penalties at row j have seen exactly the tokens that plain
/// decoding would have. A constraint masks the row before everything else and hears of the token chosen; when it
/// leaves nothing the span ends with kError and without that token.
void verify_span(const VerifyInput& input, Slot& slot, SamplerScratch& scratch, SpanResult& result,
                 TokenLogprobs* logprobs);

}  // namespace ashlar
