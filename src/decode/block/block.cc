// SPDX-License-Identifier: Apache-2.0
#include "decode/block/block.h"

#include <utility>

namespace ashlar {

void Block::open(int32_t position, int32_t length, int32_t mask_id) {
  start = position;
  n = length;
  pass = 0;
  finished = impossible = no_numbers = false;
  masked = positions();
  given = verify = 0;
  ids.fill(mask_id);
  unmask_pass.fill(0);
  memory = {};
}

void Block::give(int32_t i, int32_t id) {
  ids[i] = id;
  masked &= ~(Positions{1} << i);
  given |= Positions{1} << i;
}

void Block::draft(Positions positions) {
  verify = positions;
  drafts = candidates;
}

Positions Block::verified(int32_t most) {
  Positions unmasked = 0;
  for (Positions left = std::exchange(verify, 0); left != 0 && count(unmasked) < most; left &= left - 1) {
    const int32_t i = std::countr_zero(left);
    unmasked |= Positions{1} << i;
    if (candidates[i] != drafts[i]) break;
  }
  return unmasked;
}

void Block::unmask(int32_t i, int32_t id, const SamplingParams& params, TokenCounts& counts) {
  if (params.has_penalties()) {
    if (!has(masked, i)) counts.remove_answer(ids[i]);
    counts.add_answer(id);
  }
  ids[i] = id;
  masked &= ~(Positions{1} << i);
  unmask_pass[i] = static_cast<int16_t>(pass);
  if (params.wants_logprobs()) unmasked_logprobs[i] = logprobs[i];
}

}  // namespace ashlar
