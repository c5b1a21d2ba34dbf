#include "decode/block/candidates.h"

#include <cmath>
#include <limits>

#include "decode/constrain.h"

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

void find_candidate(Block& block, int32_t i, bool next, Slot& slot, const CandidateOptions& options, float* logits,
                    SamplerScratch& scratch) {
  const SamplingParams& params = slot.params;
  logits[options.mask_id] = -std::numeric_limits<float>::infinity();
  LogNormaliser normaliser{};
  const bool adjusts = is_adjusted(params) || slot.constraint != nullptr || options.repeat_penalty != 0;
  if (params.wants_logprobs()) {
    normaliser = normalise(logits, options.vocab);
    top_logprobs(logits, options.vocab, normaliser, params.top_logprobs, block.logprobs[i]);
    if (adjusts) scratch.raw.assign(logits, logits + options.vocab);
  }
  const Masked masked = next ? constrain(logits, options.vocab, slot, scratch) : Masked::kNo;
  // A token that may be edited is not penalised for standing where it stands.
  const bool counted = params.has_penalties() && !has(block.masked, i);
  if (counted) slot.counts.remove_answer(block.ids[i]);
  adjust_logits(logits, options.vocab, params, &slot.counts, nullptr);
  if (counted) slot.counts.add_answer(block.ids[i]);
  if (const int32_t before = token_before(block, i); options.repeat_penalty != 0 && before >= 0) {
    logits[before] -= options.repeat_penalty;
  }
  RowStatistics& row = block.statistics[i];
  row = row_statistics(logits, options.vocab);
  if (params.greedy()) {
    block.candidates[i] = row.best;
    block.confidence[i] = row.p_best;
  } else {
    const int32_t id = sample_token(logits, options.vocab, params, block.start + i, nullptr, scratch);
    block.candidates[i] = id;
    block.confidence[i] = id == row.best ? row.p_best : std::exp(logits[id] - row.log_sum);
  }
  // What is no number is chosen only where nothing else is left.
  const bool is_number = logits[block.candidates[i]] > -std::numeric_limits<float>::infinity();
  if (masked == Masked::kNo && !is_number) block.no_numbers = true;
  if (masked == Masked::kAll || (masked == Masked::kSome && !is_allowed(scratch.allowed, block.candidates[i]))) {
    block.impossible = true;
  }
  if (params.wants_logprobs()) {
    const int32_t id = block.candidates[i];
    block.logprobs[i].token = normaliser.logprob(adjusts ? scratch.raw[id] : logits[id]);
  }
}

void verify_drafts(Block& block, Slot& slot, const CandidateOptions& options, float* logits, SamplerScratch& scratch) {
  const bool counts = slot.params.has_penalties();
  Positions counted = 0;
  for (Positions left = block.verify; left != 0; left &= left - 1, logits += options.vocab) {
    const int32_t i = std::countr_zero(left);
    find_candidate(block, i, false, slot, options, logits, scratch);
    if (block.candidates[i] != block.drafts[i]) break;
    if (!counts) continue;
    slot.counts.add_answer(block.drafts[i]);
    counted |= Positions{1} << i;
  }
  for (; counted != 0; counted &= counted - 1) slot.counts.remove_answer(block.drafts[std::countr_zero(counted)]);
}

}  // namespace ashlar
