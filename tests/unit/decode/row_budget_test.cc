#include "decode/policy/row_budget.h"

#include <gtest/gtest.h>

#include "decode/policy/width_policy.h"

namespace ashlar::testing {
namespace {

TEST(RowSelector, KeepsTheRowsThatAreWorthTheirTime) {
  WidthPolicy policy(16, 4);
  RowCost verify, draft;
  for (const int32_t rows : {1, 2, 4, 8, 16, 64}) {
    verify.add(rows, 0.8 + 0.2 * rows);
    draft.add(rows, 0.1 + 0.01 * rows);
  }
  policy.set_costs(verify, draft);
  std::vector<WidthChoice> first = {{0, 16}, {1, 16}};
  policy.choose(first);
  const std::vector<float> sure(15, 0.95F);
  std::vector<float> poor(15, 0.02F);
  RowBudget budget;
  RowSelector selector;
  policy.budget(3, 37, budget);
  std::vector<DraftRows> built = {{16, sure}, {16, poor}, {5, {}}};
  selector.select(budget, built);
  EXPECT_EQ(built[0].width, 16);
  EXPECT_EQ(built[1].width, 1);
  EXPECT_EQ(built[2].width, 5);  // its proposer does not say
  poor[0] = 0.9F;
  built = {{16, poor}};
  policy.budget(1, 16, budget);
  selector.select(budget, built);
  EXPECT_EQ(built[0].width, 2);
  WidthPolicy fixed(16, 1);  // costs are not known: all rows stay
  built = {{16, poor}};
  fixed.budget(1, 16, budget);
  selector.select(budget, built);
  EXPECT_EQ(built[0].width, 16);
}

}  // namespace
}  // namespace ashlar::testing
