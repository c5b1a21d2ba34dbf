// SPDX-License-Identifier: Apache-2.0
#include "decode/block/candidates.h"

#include <algorithm>

namespace ashlar {
namespace {

bool is_adjusted(const SamplingParams& params) { return !params.logit_bias.empty() || params.has_penalties(); }

// The token before a position, or -1 where there is none yet.
int32_t token_before(const Block& block, int32_t i) {
  if (i > 0) return has(block.masked, i - 1) ? -1 : block.ids[i - 1];
  if (!block.tokens.empty()) return block.tokens.back();  // of a model that computes the whole sequence
  return block.start > 0 ? block.before[block.n - 1] : -1;
}

}  // namespace

bool is_plain(const Slot& slot, const CandidateOptions& options) {
  return slot.params.greedy() && !is_adjusted(slot.params) && !slot.params.wants_logprobs() &&
         slot.constraint == nullptr && options.repeat_penalty == 0;
}

RowRequest candidate_request(const Block& block, int32_t i, const Slot& slot, const CandidateOptions& options,
                             std::span<const uint32_t> allowed, std::span<const int32_t> after) {
  const SamplingParams& params = slot.params;
  RowRequest request;
  request.position = block.start + i;
  request.params = &params;
  request.excluded = options.mask_id;
  request.allowed = allowed;
  // A token that may be edited is not penalised for standing where it stands.
  const bool counted = params.has_penalties() && !has(block.masked, i);
  request.seen = {&slot.counts, after, counted ? block.ids[i] : -1};
  if (options.repeat_penalty != 0) {
    request.repeated = token_before(block, i);
    request.repeat_penalty = options.repeat_penalty;
  }
  request.top_logprobs = params.top_logprobs;
  request.statistics = true;
  return request;
}

void take_candidate(Block& block, int32_t i, const Slot& slot, const RowChoice& choice,
                    std::span<const uint32_t> allowed) {
  block.statistics[i] = choice.statistics;
  block.candidates[i] = std::max(choice.token, 0);
  block.confidence[i] = choice.probability;
  if (choice.token < 0) (allowed.empty() ? block.no_numbers : block.impossible) = true;
  if (slot.params.wants_logprobs()) block.logprobs[i] = choice.logprobs;
}

}  // namespace ashlar
