// SPDX-License-Identifier: Apache-2.0
#pragma once
// From one row of logits to one token. Order: logit bias, repetition penalty, presence and frequency penalties,
// temperature, top-k, top-p, min-p, then Gumbel-max on counter-based noise (argmax at temperature 0; the lowest id wins
// ties).

#include <cstdint>
#include <span>
#include <vector>

#include "base/row_math.h"
#include "device/choose.h"

namespace ashlar {

/// A candidate that the filters keep: target token id, tempered logit, and its probability among the kept.
struct Candidate {
  int32_t id;
  float logit;
  double probability;
};

/// Scratch of one worker; grows to the vocabulary once.
struct SamplerScratch {
  std::vector<Candidate> candidates;
  std::vector<float> raw;    ///< a row before adjustment, or part of one
  std::vector<int32_t> ids;  ///< of part of a row
  void reserve(int32_t vocab) {
    candidates.reserve(vocab);
    raw.reserve(vocab);
  }
};

/// Makes every logit whose bit is not set minus infinity. allowed: bit (i % 32) of word i / 32.
void mask_logits(float* logits, int32_t vocab, std::span<const uint32_t> allowed);

/// Applies bias and penalties in place. logits: [vocab] over target ids, or over draft ids if id_map is given (then
/// entry i stands for token id_map[i], and a bias or penalty reaches the entries the map has).
void adjust_logits(float* logits, int32_t vocab, const SamplingParams& params, const SeenTokens& seen,
                   const int32_t* id_map);

/// The row that the logits at hand are the highest of.
struct WholeRow {
  int32_t vocab = 0;    ///< entries; 0: the logits are the whole row
  double tempered = 0;  ///< sum over the row of exp((logit - highest) / temperature)
};

/// The tokens that temperature and filters keep, most likely first; temperature must be above 0. `probability` sums
/// to 1. Of a part of a row the same, if it has all that is kept.
void filter_candidates(const float* logits, int32_t vocab, const SamplingParams& params, const int32_t* id_map,
                       std::vector<Candidate>& out, const WholeRow& row = {});

/// The candidate at u (in (0, 1)) of the cumulative distribution; `total` is the sum of the probabilities.
int32_t pick_candidate(const std::vector<Candidate>& candidates, double total, double u);

/// How far below the highest logit over the temperature a token may lie and be kept, without top-k: a negative number.
double lowest_kept(const SamplingParams& params, int32_t vocab);

/// Chooses the token of index `position` from adjusted logits.
int32_t sample_token(const float* logits, int32_t vocab, const SamplingParams& params, int32_t position,
                     const int32_t* id_map, SamplerScratch& scratch, const WholeRow& row = {});

/// Log-probabilities of raw logits; `tops` of the most likely are listed, ties by id. Fills n_top, top_ids, top_values;
/// token's own value by logprob_of.
struct LogNormaliser {
  float highest;
  double log_sum;  ///< of exp(logit - highest)
  float logprob(float logit) const { return static_cast<float>(static_cast<double>(logit) - highest - log_sum); }
};
LogNormaliser normalise(const float* logits, int32_t vocab);
void top_logprobs(const float* logits, int32_t vocab, const LogNormaliser& normaliser, int32_t tops,
                  TokenLogprobs& out);

}  // namespace ashlar
