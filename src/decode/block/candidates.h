// SPDX-License-Identifier: Apache-2.0
#pragma once
// From a row of logits to the token that a position of a block would get, and what an algorithm may know of it.

#include <span>

#include "decode/block/block.h"
#include "decode/slot_table.h"
#include "device/choose.h"

namespace ashlar {

struct CandidateOptions {
  int32_t vocab = 0;
  int32_t mask_id = 0;
  float repeat_penalty = 0;
};

/// Whether the slot asks for nothing but the likeliest token, so that rows of a block are independent of each other and
/// of everything but the logits.
bool is_plain(const Slot& slot, const CandidateOptions& options);

/// What is asked about the row that predicts position i of the block, in the order of the sampler. `allowed`: what a
/// constraint leaves, if i is the next position of the answer; `after`: drafts that stand before i.
RowRequest candidate_request(const Block& block, int32_t i, const Slot& slot, const CandidateOptions& options,
                             std::span<const uint32_t> allowed, std::span<const int32_t> after);

/// Takes the answer in as entry i of the block's candidates, confidence and statistics (and log-probabilities).
void take_candidate(Block& block, int32_t i, const Slot& slot, const RowChoice& choice,
                    std::span<const uint32_t> allowed);

}  // namespace ashlar
