#include "decode/verify.h"

#include <algorithm>
#include <limits>

#include "decode/constrain.h"
#include "decode/noise.h"

namespace ashlar {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

double uniform_at(const Slot& slot, int32_t position, noise::Domain domain) {
  return noise::uniform(noise::word(slot.params.seed, position, 0, domain));
}

// Classic speculative sampling (Leviathan et al. 2023; Chen et al. 2023): accept the draft with min(1, p/q), otherwise
// draw from the normalised max(p - q, 0). Lossless in distribution for any q, if drafts were drawn in the order of
// their positions, each knowing those before it; with q null, for a draft that counts as certain, however it was made.
int32_t sample_by_rejection(const float* logits, int32_t vocab, const Slot& slot, int32_t position, int32_t draft,
                            const float* q, SamplerScratch& scratch) {
  std::vector<Candidate>& kept = scratch.candidates;
  filter_candidates(logits, vocab, slot.params, nullptr, kept);
  double total = 1.0;
  if (draft >= 0) {
    const auto found = std::find_if(kept.begin(), kept.end(), [&](const Candidate& c) { return c.id == draft; });
    const double p = found == kept.end() ? 0.0 : found->probability;
    const double q_draft = q == nullptr ? 1.0 : q[draft];
    if (uniform_at(slot, position, noise::Domain::kAccept) * q_draft < p) return draft;
    double residual = 0;
    for (Candidate& candidate : kept) {
      const double proposed = q == nullptr ? (candidate.id == draft ? 1.0 : 0.0) : q[candidate.id];
      candidate.probability = std::max(candidate.probability - proposed, 0.0);
      residual += candidate.probability;
    }
    if (residual > 0) {
      total = residual;
    } else {
      filter_candidates(logits, vocab, slot.params, nullptr, kept);
    }
  }
  return pick_candidate(kept, total, uniform_at(slot, position, noise::Domain::kResample));
}

// The row whose token is `token` behind that of `row`, or -1. Rows of a tree stand depth first, so that it comes later.
int32_t next_row(const VerifyInput& input, int32_t row, int32_t token) {
  if (input.parents == nullptr) return row + 1 < input.n && input.drafts[row] == token ? row + 1 : -1;
  for (int32_t r = row + 1; r < input.n; ++r) {
    if (input.parents[r] == row && input.drafts[r - 1] == token) return r;
  }
  return -1;
}

void fail(Slot& slot, SpanResult& result, SpanEnd why) {
  result.end = why;
  slot.done = true;
}

}  // namespace

bool needs_only_choice(const Slot& slot) {
  const SamplingParams& params = slot.params;
  return params.takes_highest() && !params.wants_logprobs() && slot.constraint == nullptr;
}

void verify_span(const VerifyInput& input, Slot& slot, SamplerScratch& scratch, SpanResult& result,
                 TokenLogprobs* logprobs) {
  const SamplingParams& params = slot.params;
  const bool rejection = params.scheme == SamplingScheme::kRejection && !params.greedy();
  int32_t position = input.start;
  for (int32_t row = 0; row >= 0;) {
    if (slot.constraint != nullptr && !slot.constraint->prepare()) {
      result.cut = true;
      result.n_accepted = std::max(result.n_tokens - 1, 0);  // the last one is not confirmed by a row of its own
      return;
    }
    ++position;
    float* logits = input.choices != nullptr ? nullptr : input.logits + int64_t{row} * input.vocab;
    LogNormaliser normaliser{};
    TokenLogprobs* logprob = params.wants_logprobs() ? logprobs + result.n_tokens : nullptr;
    if (logprob != nullptr) {
      normaliser = normalise(logits, input.vocab);
      top_logprobs(logits, input.vocab, normaliser, params.top_logprobs, *logprob);
    }
    // The token's own log-probability is of the raw logits, which the adjustment below overwrites.
    const bool adjusts = !params.logit_bias.empty() || params.has_penalties() || slot.constraint != nullptr;
    scratch.raw.clear();
    if (logprob != nullptr && adjusts) scratch.raw.assign(logits, logits + input.vocab);
    const Masked masked = constrain(logits, input.vocab, slot, scratch);
    if (masked == Masked::kAll) return fail(slot, result, SpanEnd::kError);
    adjust_logits(logits, input.vocab, params, &slot.counts, nullptr);
    const int32_t draft = rejection && row + 1 < input.n ? input.drafts[row] : -1;
    const int32_t token = input.choices != nullptr ? input.choices[row]
                          : rejection
                              ? sample_by_rejection(logits, input.vocab, slot, position, draft,
                                                    draft >= 0 ? input.draft_q(input.context, row) : nullptr, scratch)
                              : sample_token(logits, input.vocab, params, position, nullptr, scratch);
    // What is no number is chosen only where nothing else is left.
    const bool is_number = logits != nullptr ? logits[token] > kNone : token >= 0;
    if (!is_number) return fail(slot, result, SpanEnd::kNoNumbers);
    if (masked == Masked::kSome && !is_allowed(scratch.allowed, token)) return fail(slot, result, SpanEnd::kError);
    if (logprob != nullptr) logprob->token = normaliser.logprob(adjusts ? scratch.raw[token] : logits[token]);

    if (input.path != nullptr) input.path[result.n_tokens] = row;
    result.tokens[result.n_tokens++] = token;
    slot.last_token = token;
    if (slot.constraint != nullptr) slot.constraint->advance(token);
    if (params.has_penalties()) slot.counts.add_answer(token);
    row = next_row(input, row, token);
    if (row >= 0) ++result.n_accepted;
    if (std::find(slot.stop_ids.begin(), slot.stop_ids.end(), token) != slot.stop_ids.end()) {
      result.end = SpanEnd::kStop;
    } else if (position + 1 >= slot.limit) {
      result.end = SpanEnd::kLength;
    }
    if (result.end != SpanEnd::kRunning) {
      slot.done = true;
      return;
    }
  }
  if (slot.constraint != nullptr) slot.constraint->prepare();  // for the next step, while others are busy
}

}  // namespace ashlar
