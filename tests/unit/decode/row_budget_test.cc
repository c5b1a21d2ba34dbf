// SPDX-License-Identifier: Apache-2.0
#include "decode/policy/row_budget.h"

#include <gtest/gtest.h>

#include "unit/decode/simulated_device.h"

namespace ashlar::testing {
namespace {

TEST(RowSelector, KeepsTheRowsThatAreWorthTheirTime) {
  WidthPolicy policy(16, 4);
  RowCost verify, draft;
  for (const int32_t rows : {1, 2, 4, 8, 16, 64}) {
    verify.add(rows, 0.8 + 0.2 * rows);
    draft.add(rows, 0.1 + 0.01 * rows);
  }
  set_costs(policy, verify, draft);
  std::vector<WidthChoice> first = {{0, 16}, {1, 16}};
  policy.choose(first);
  const std::vector<float> sure(15, 0.95F);
  std::vector<float> poor(15, 0.02F);
  RowBudget budget;
  RowSelector selector;
  std::vector<WidthChoice> three(3);
  policy.budget(three, 37, budget);
  std::vector<DraftRows> built = {{16, sure}, {16, poor}, {5, {}}};
  selector.select(budget, built);
  EXPECT_EQ(built[0].width, 16);
  EXPECT_EQ(built[1].width, 1);
  EXPECT_EQ(built[2].width, 5);  // its proposer does not say
  poor[0] = 0.9F;
  built = {{16, poor}};
  policy.budget(std::span(three).first(1), 16, budget);
  selector.select(budget, built);
  EXPECT_EQ(built[0].width, 2);
  budget.row_key = 1e-3;  // attention over a long context makes the row dearer than its chance is worth
  built = {{16, poor, 30000}};
  selector.select(budget, built);
  EXPECT_EQ(built[0].width, 1);
  WidthPolicy fixed(16, 1);  // costs are not known: all rows stay
  built = {{16, poor}};
  fixed.budget(std::span(three).first(1), 16, budget);
  selector.select(budget, built);
  EXPECT_EQ(built[0].width, 16);
}

}  // namespace
}  // namespace ashlar::testing
