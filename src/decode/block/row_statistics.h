#pragma once
// What an unmasking rule knows of one row of logits, so that the row itself need not be kept.

#include <cstdint>

namespace ashlar {

struct RowStatistics {
  int32_t best = 0;    ///< the most likely id, the lowest on a tie
  int32_t second = 0;  ///< the next one; `best` if there is no other
  float p_best = 0;    ///< probabilities of the whole row, temperature 1
  float p_second = 0;
  float entropy = 0;  ///< nats; only if asked for
};

/// Of one row of logits [n]. Entries of minus infinity take no part.
RowStatistics row_statistics(const float* logits, int32_t n, bool wants_entropy);

/// Probability of logits[id] at temperature 1.
float row_probability(const float* logits, int32_t n, int32_t id);

}  // namespace ashlar
