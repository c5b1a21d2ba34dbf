// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which rows of draft trees are verified, once their proposer has said how likely each is.

#include <cstdint>
#include <span>
#include <vector>

namespace ashlar {

/// What rows may cost in one step.
struct RowBudget {
  double trust = 1;           ///< accepted drafts for each that the proposer expects
  double pace = 0;            ///< tokens per unit of time
  double row_key = 0;         ///< what a row takes more for each key that it sees
  std::vector<double> times;  ///< of the target's pass by its rows, without that; empty: every row stays
};

/// The rows of one sequence: its last token's, and one for each draft, the likeliest first.
struct DraftRows {
  int32_t width = 1;                    ///< in: as many as there are; out: those that stay
  std::span<const float> chances = {};  ///< of the drafts; empty: all rows stay
  double keys = 0;                      ///< that each row sees
};

/// Keeps as many of the likeliest drafts of all sequences as yield most tokens beyond what their rows cost: the
/// proposer's pass is over, so that every row must be worth its own time, at the pace at which tokens come.
class RowSelector {
 public:
  void reserve(int32_t max_drafts) { drafts_.reserve(static_cast<size_t>(max_drafts)); }
  void select(const RowBudget& budget, std::span<DraftRows> sequences);

 private:
  struct Draft {
    double worth;  // the chance, less what its context takes
    int32_t sequence;
    int32_t index;  // in its sequence, from 1
  };
  std::vector<Draft> drafts_;
};

}  // namespace ashlar
