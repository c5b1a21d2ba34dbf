// SPDX-License-Identifier: Apache-2.0
#pragma once
// From one row of a drafter's logits to the tokens worth a place in a tree.

#include "device/sampling/sampler.h"

namespace ashlar {

/// The likeliest tokens of index `position` in a request's sequence, from adjusted logits [vocab]; entry i stands for
/// token id_map[i] where there is a map. Who samples gets the tokens that the noise of the position favours: the first
/// one is what sample_token() chooses.
///
/// Chances: a drafter's logits are the target's up to an error, and its softmax says how likely each token is to be the
/// target's best (without noise what the others have in all is known to 4 %: chances only choose what is verified). The
/// noise is the same for both, so with it the softmax is taken of logits + temperature * noise.
void find_likeliest(const float* logits, int32_t vocab, const SamplingParams& params, int32_t position,
                    const int32_t* id_map, SamplerScratch& scratch, LikeliestTokens& out);

/// The highest logits of a row, the lowest index of equals first, and what the row weighs.
struct HighestLogits {
  int32_t n = 0;
  const int32_t* columns = nullptr;
  const float* logits = nullptr;
  double sum = 0;  ///< over the row, of exp(logit - highest)
};
/// How many of them find_likeliest() looks at.
int32_t looked_at(const SamplingParams& params);
/// The same from those alone. chosen: what sample_token() says of the row, not needed for the greedy.
void find_likeliest(const HighestLogits& highest, const SamplingParams& params, int32_t position, const int32_t* id_map,
                    int32_t chosen, LikeliestTokens& out);

}  // namespace ashlar
