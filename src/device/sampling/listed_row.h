// SPDX-License-Identifier: Apache-2.0
#pragma once
// Choosing from a few tokens of a row and sums over it, for devices that find those where the logits lie: the token is
// the one that choose_row() finds in the whole row, since all that could be chosen is in the list.

#include <cstdint>
#include <vector>

#include "device/sampling/sampler.h"

namespace ashlar {

/// Which tokens a list must have, at least.
struct ListWish {
  int32_t least = 0;        ///< this many of the highest; 0: what follows counts
  bool with_noise = false;  ///< those that might be the highest with the noise of seed and position
  double share = 2;  ///< the likeliest that have this share of the softmax at the temperature, or all above the floor
  double floor = 0;  ///< how far below the highest, over the temperature; a number below 0, as lowest_kept()
};

/// What has to be known of a row to answer a request.
struct RowWishes {
  bool any = false;       ///< false: lists cannot answer this request
  bool adjusted = false;  ///< the row is looked at with mask, bias and penalties, but for log-probabilities
  bool raw = false, likely = false, draw = false;
  ListWish of_raw;     ///< of the row as it came
  ListWish of_likely;  ///< for the greedy, top-k, log-probabilities, statistics and trees
  ListWish of_draw;    ///< for a token that noise chooses, unless it comes from the likeliest
};
RowWishes wishes_of(const RowRequest& request, int32_t vocab);

struct ListedRow {
  struct Token {
    int32_t column;
    float logit;
    float raw;  ///< before it was adjusted
  };
  std::vector<Token> tokens;  ///< in any order
  float highest = 0;
  double sum = 0;       ///< over the row, of exp(logit - highest)
  double weighted = 0;  ///< of exp(logit - highest) * (logit - highest)
  double tempered = 0;  ///< of exp((logit - highest) / temperature); for wishes for a share
};

/// The answer from the lists that were wished for (null: not wished for), which it sorts.
RowChoice choose_listed(const RowRequest& request, int32_t vocab, ListedRow* raw, ListedRow* likely, ListedRow* draw,
                        SamplerScratch& scratch);

}  // namespace ashlar
