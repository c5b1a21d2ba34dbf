// SPDX-License-Identifier: Apache-2.0
#include "decode/policy/step_cost.h"

#include <gtest/gtest.h>

#include "unit/decode/simulated_device.h"

namespace ashlar::testing {
namespace {

TEST(RowCost, InterpolatesAndContinues) {
  RowCost cost;
  cost.add(1, 10);
  cost.add(4, 16);
  cost.add(8, 15);  // so the 16 before was noise
  cost.add(16, 32);
  EXPECT_DOUBLE_EQ(cost.at(1), 10);
  EXPECT_NEAR(cost.at(2), 10 + 5.0 / 3, 1e-12);
  EXPECT_DOUBLE_EQ(cost.at(6), 15);
  EXPECT_DOUBLE_EQ(cost.at(12), 23.5);
  EXPECT_DOUBLE_EQ(cost.at(32), 66);
}

TEST(PassCost, GrowsWithWhatAttentionReads) {
  const PassCost cost = {line(1, 0.1), 0.01, 0.001};
  PassLoad load;
  load.add(4, 100);
  load.add(1, 1000);
  EXPECT_DOUBLE_EQ(cost.of(load), 1.5 + 0.01 * 1100 + 0.001 * 1400);
  load.add_rows(2, 100);  // of the first sequence
  EXPECT_DOUBLE_EQ(cost.of(load), 1.7 + 0.01 * 1100 + 0.001 * 1600);
  EXPECT_DOUBLE_EQ(KeysSeen().of(5000), 5000);
  EXPECT_DOUBLE_EQ(KeysSeen({0, 512, 512, 512}).of(300), 300);
  EXPECT_DOUBLE_EQ(KeysSeen({0, 512, 512, 512}).of(4096), (4096 + 3 * 512) / 4.0);
}

}  // namespace
}  // namespace ashlar::testing
