// SPDX-License-Identifier: Apache-2.0
#pragma once
// One draw from the softmax of a row: the highest of logit / temperature + Gumbel noise, with the noise of noise.h.

#include <cstdint>

namespace ashlar {

/// Who draws: the seed of the request and the index in the sequence of the token that is being chosen.
struct Draw {
  uint64_t seed;
  int32_t position;
};

/// The token with the highest score, the lowest on a tie; what is not a number never wins (0 if nothing else is there).
/// Every token of the row takes part, but a logarithm is taken only where a cheap bound lets a token win. `inverse`: of
/// the temperature. The same on every machine.
int32_t gumbel_max(const float* logits, int32_t vocab, double inverse, Draw draw);

/// The same token by token, for logits beyond what others are scanned for, and to hold the other against.
int32_t gumbel_max_scalar(const float* logits, int32_t vocab, double inverse, Draw draw);

/// The same where entry i stands for token id_map[i].
int32_t gumbel_max_mapped(const float* logits, int32_t n, double inverse, Draw draw, const int32_t* id_map);

}  // namespace ashlar
