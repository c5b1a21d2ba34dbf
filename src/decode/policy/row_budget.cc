// SPDX-License-Identifier: Apache-2.0
#include "decode/policy/row_budget.h"

#include <algorithm>
#include <tuple>

namespace ashlar {

void RowSelector::select(const RowBudget& budget, std::span<DraftRows> sequences) {
  if (budget.times.empty()) return;
  size_t rows = 0;
  drafts_.clear();
  for (size_t i = 0; i < sequences.size(); ++i) {
    DraftRows& sequence = sequences[i];
    rows += sequence.chances.empty() ? static_cast<size_t>(sequence.width) : 1;
    if (sequence.chances.empty()) continue;
    const double context = budget.pace * budget.row_key * sequence.keys;
    for (int32_t k = 1; k < sequence.width; ++k) {
      const double chance = budget.trust * sequence.chances[static_cast<size_t>(k) - 1];
      drafts_.push_back({std::min(chance, 1.0) - context, static_cast<int32_t>(i), k});
    }
    sequence.width = 1;
  }
  std::sort(drafts_.begin(), drafts_.end(), [](const Draft& a, const Draft& b) {
    return std::tie(b.worth, a.index, a.sequence) < std::tie(a.worth, b.index, b.sequence);
  });
  const auto price = [&](size_t n) { return budget.pace * budget.times[std::min(n, budget.times.size() - 1)]; };
  double tokens = 0;
  double best_profit = -price(rows);
  size_t best = 0;
  for (size_t m = 1; m <= drafts_.size(); ++m) {
    tokens += drafts_[m - 1].worth;
    const double profit = tokens - price(rows + m);
    if (profit > best_profit) {
      best_profit = profit;
      best = m;
    }
  }
  for (size_t m = 0; m < best; ++m) ++sequences[static_cast<size_t>(drafts_[m].sequence)].width;
}

}  // namespace ashlar
