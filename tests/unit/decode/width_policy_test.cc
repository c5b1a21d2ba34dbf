#include "decode/width_policy.h"

#include <gtest/gtest.h>

#include <random>

namespace ashlar::testing {
namespace {

RowCost line(double fixed, double per_row) {
  RowCost cost;
  cost.add(1, fixed + per_row);
  cost.add(16, fixed + 16 * per_row);
  return cost;
}

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

TEST(WidthPolicy, IsFixedUntilCostsAreKnown) {
  WidthPolicy policy(16, 1);
  policy.begin_step(1);
  EXPECT_EQ(policy.choose(0), 16);
}

// Feeds passes in which each draft survives with `chance`; returns the mean width of the last hundred.
double settle(WidthPolicy& policy, double chance, int32_t n) {
  std::mt19937 random(5);
  std::uniform_real_distribution<double> uniform;
  double sum = 0;
  for (int pass = 0; pass < 300; ++pass) {
    policy.begin_step(n);
    const int32_t width = policy.choose(0);
    int32_t accepted = 0;
    while (accepted < width - 1 && uniform(random) < chance) ++accepted;
    policy.observe(0, width - 1, accepted);
    if (pass >= 200) sum += width;
  }
  return sum / 100;
}

TEST(WidthPolicy, WidensWhereRowsAreCheapAndDraftsSurvive) {
  WidthPolicy cheap(16, 1);
  cheap.set_costs(line(1.0, 0.01), line(0.2, 0.01));
  EXPECT_GT(settle(cheap, 0.95, 1), 13);
  EXPECT_LT(settle(cheap, 0.4, 1), 9);
  EXPECT_GT(settle(cheap, 0.95, 1), 13);  // and comes back
}

TEST(WidthPolicy, NarrowsWhereRowsAreDear) {
  WidthPolicy dear(16, 1);
  dear.set_costs(line(1.0, 0.2), line(0.2, 0.05));
  const double middling = settle(dear, 0.7, 1);
  EXPECT_GT(middling, 1.5);
  EXPECT_LT(middling, 7);
}

TEST(WidthPolicy, StopsDraftingWhereItDoesNotPayButTriesAgain) {
  WidthPolicy policy(16, 1);
  policy.set_costs(line(1.0, 0.3), line(0.1, 0.1));
  const double mean = settle(policy, 0.1, 1);
  EXPECT_LT(mean, 1.5);
  EXPECT_GT(mean, 1.0);
}

TEST(WidthPolicy, GivesUpWhereNotEvenGoodDraftsPay) {
  WidthPolicy policy(16, 1);
  policy.set_costs(line(4.0, 0.2), line(0.3, 0.05));  // a row costs little until there are many
  EXPECT_GT(settle(policy, 0.9, 1), 8);
  EXPECT_TRUE(policy.hopeful());
  WidthPolicy crowded(16, 1);
  crowded.set_costs(line(0.1, 1.0), line(0.1, 0.2));
  EXPECT_TRUE(crowded.hopeful());
  EXPECT_EQ(settle(crowded, 1.0, 16), 1.0);  // does not even try
  EXPECT_FALSE(crowded.hopeful());
}

TEST(WidthPolicy, TryingAgainCostsAboutAPercent) {
  WidthPolicy policy(16, 16);
  policy.set_costs(line(1.0, 0.05), line(0.3, 0.01));
  const auto verify = [](double rows) { return 1.0 + 0.05 * rows; };
  double plain = 0;
  double probes = 0;
  for (int step = 0; step < 4000; ++step) {
    policy.begin_step(16);
    for (int32_t slot = 0; slot < 16; ++slot) {
      const int32_t width = policy.choose(slot);
      policy.observe(slot, width - 1, 0);
      if (step < 2000 || width == 1) continue;
      probes += verify(16 + width - 1) - verify(16) + 0.3 + 0.01 * width;
    }
    if (step >= 2000) plain += verify(16);
  }
  EXPECT_GT(probes, 0);
  EXPECT_LT(probes / plain, 0.015);
}

// The mean width once steps with drafts take `drafting` times what the costs say, and those without `plain` times.
double settle_with_times(double drafting, double plain) {
  WidthPolicy policy(16, 1);
  policy.set_costs(line(1.0, 0.05), line(0.2, 0.01));
  double sum = 0;
  for (int step = 0; step < 2000; ++step) {
    policy.begin_step(1);
    const int32_t width = policy.choose(0);
    const double draft = width > 1 ? 0.2 + 0.01 * width : 0;
    policy.observe_step(width, width > 1 ? width : 0, (1.0 + 0.05 * width + draft) * (width > 1 ? drafting : plain));
    policy.observe(0, width - 1, std::min(width - 1, 1));  // always one draft: at most two tokens a step
    if (step >= 1000) sum += width;
  }
  return sum / 1000;
}

TEST(WidthPolicy, LearnsWhatTheCostsLeaveOut) {
  EXPECT_GT(settle_with_times(1.0, 1.0), 1.9);
  EXPECT_LT(settle_with_times(2.5, 1.0), 1.2);  // drafting does not pay
  EXPECT_GT(settle_with_times(2.5, 2.5), 1.9);  // everything takes longer: no reason to stop
}

TEST(WidthPolicy, NarrowsInCompany) {
  WidthPolicy alone(16, 1);
  WidthPolicy together(16, 1);
  for (WidthPolicy* policy : {&alone, &together}) policy->set_costs(line(1.0, 0.03), line(0.2, 0.01));
  EXPECT_GT(settle(alone, 0.8, 1), settle(together, 0.8, 16));
}

TEST(WidthPolicy, ForgetsTheSlotsLastSequence) {
  WidthPolicy policy(16, 2);
  policy.set_costs(line(1.0, 0.05), line(0.2, 0.01));
  const double fresh = policy.survival(0, 3);
  for (int pass = 0; pass < 3; ++pass) policy.observe(0, 8, 0);
  EXPECT_LT(policy.survival(0, 3), fresh / 1.5);
  policy.admit(0);
  EXPECT_NEAR(policy.survival(0, 3), fresh, 0.1 * fresh);
}

}  // namespace
}  // namespace ashlar::testing
