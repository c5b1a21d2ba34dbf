#include "decode/block/block.h"

#include <utility>

namespace ashlar {

void Block::open(int32_t position, int32_t length, int32_t mask_id) {
  start = position;
  n = length;
  pass = 0;
  finished = impossible = no_numbers = false;
  holes = positions();
  given = verify = 0;
  ids.fill(mask_id);
  settled_in.fill(0);
  memory = {};
}

void Block::give(int32_t i, int32_t id) {
  ids[i] = id;
  holes &= ~(Positions{1} << i);
  given |= Positions{1} << i;
}

void Block::draft(Positions positions) {
  verify = positions;
  drafts = candidates;
}

Positions Block::verified(int32_t most) {
  Positions settled = 0;
  for (Positions left = std::exchange(verify, 0); left != 0 && count(settled) < most; left &= left - 1) {
    const int32_t i = std::countr_zero(left);
    settled |= Positions{1} << i;
    if (candidates[i] != drafts[i]) break;
  }
  return settled;
}

void Block::settle(int32_t i, int32_t id, const SamplingParams& params, TokenCounts& counts) {
  if (params.has_penalties()) {
    if (!has(holes, i)) counts.remove_answer(ids[i]);
    counts.add_answer(id);
  }
  ids[i] = id;
  holes &= ~(Positions{1} << i);
  settled_in[i] = static_cast<int16_t>(pass);
  if (params.wants_logprobs()) settled_logprobs[i] = logprobs[i];
}

}  // namespace ashlar
