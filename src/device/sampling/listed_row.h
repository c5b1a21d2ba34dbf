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
  /// Instead those about which the share `at` of all masses is reached, the likeliest first. A mass is what a column
  /// weighs at the temperature; where a draft is verified, what its chance has above that in the draft's distribution.
  bool by_mass = false;
  double at = 0;
  bool draws = false;  ///< a draft is verified or drawn from it: its distribution is read or written
  int32_t given = -1;  ///< a column whose logit and place among all are wanted, too; the draft that is verified
};

/// What has to be known of a row to answer a request.
struct RowWishes {
  bool any = false;       ///< false: lists cannot answer this request
  bool adjusted = false;  ///< the row is looked at with mask, bias and penalties, but for log-probabilities
  bool raw = false, likely = false, draw = false, statistics = false;
  ListWish of_raw;     ///< of the row as it came
  ListWish of_likely;  ///< for the greedy, top-k, log-probabilities, given tokens and trees
  ListWish of_draw;    ///< for a token that noise or a share chooses, unless it comes from the likeliest
};
RowWishes wishes_of(const RowRequest& request, int32_t vocab);

struct ListedRow {
  struct Token {
    int32_t column;
    float logit;
    float raw;    ///< before it was adjusted
    float q = 0;  ///< in the distribution of the draft that is verified, if that was not certain
  };
  std::vector<Token> tokens;  ///< in any order
  float highest = 0;
  double sum = 0;       ///< over the row, of exp(logit - highest)
  double tempered = 0;  ///< of exp((logit - highest) / temperature); for wishes for a share or by mass
  double mass = 0;      ///< by mass: of all, a column's being exp((logit - highest) / temperature) less q * tempered
  double before = 0;    ///< by mass: of those that are likelier than the list's
  Token given = {-1, 0, 0};
  int32_t rank = 0;  ///< of the given: its place among all columns, the highest first (1), the lowest of equals
};

/// What was found as wished; null: not wished for.
struct RowLists {
  ListedRow* raw = nullptr;
  ListedRow* likely = nullptr;
  ListedRow* draw = nullptr;
  const RowStatistics* statistics = nullptr;
};

/// Whether what was found says what the row holds. If not, the row has to be looked at as a whole.
bool answers(const RowLists& lists);

/// The answer from them, which it sorts. Where a draft is drawn by filters (kDraft), scratch.candidates has its
/// distribution, which is not written.
RowChoice choose_listed(const RowRequest& request, int32_t vocab, const RowLists& lists, SamplerScratch& scratch);

}  // namespace ashlar
