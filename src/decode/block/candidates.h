#pragma once
// From a row of logits to the token that a position of a block would get, and what an algorithm may know of it.

#include "decode/block/block.h"
#include "decode/sampler.h"
#include "decode/slot_table.h"

namespace ashlar {

struct CandidateOptions {
  int32_t vocab = 0;
  int32_t mask_id = 0;
  float repeat_penalty = 0;
};

/// Whether the slot asks for nothing but the likeliest token, so that rows of a block are independent of each other and
/// of everything but the logits.
bool is_plain(const Slot& slot, const CandidateOptions& options);

/// Fills entry i of the block's candidates, confidence and statistics (and log-probabilities) from the row that
/// predicts its position; overwrites the row. The order is the sampler's. `next`: whether i is the next position of the
/// answer, where a constraint applies.
void find_candidate(Block& block, int32_t i, bool next, Slot& slot, const CandidateOptions& options, float* logits,
                    SamplerScratch& scratch);

/// The candidates of the positions to verify, from rows of logits in their order [positions, vocab], each as after the
/// drafts before it; up to the first that differs from its draft. Overwrites the rows.
void verify_drafts(Block& block, Slot& slot, const CandidateOptions& options, float* logits, SamplerScratch& scratch);

}  // namespace ashlar
