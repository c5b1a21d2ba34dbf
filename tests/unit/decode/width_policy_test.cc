#include "decode/policy/width_policy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "unit/decode/row_costs.h"

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

// The widths of sequences in slots 0 to n - 1.
std::vector<int32_t> choose(WidthPolicy& policy, int32_t n, int32_t most = 64) {
  std::vector<WidthChoice> sequences;
  for (int32_t slot = 0; slot < n; ++slot) sequences.push_back({slot, most});
  policy.choose(sequences);
  std::vector<int32_t> widths;
  for (const WidthChoice& sequence : sequences) widths.push_back(sequence.width);
  return widths;
}

TEST(WidthPolicy, IsFixedUntilCostsAreKnown) {
  WidthPolicy policy(16, 2);
  EXPECT_EQ(choose(policy, 2), (std::vector<int32_t>{16, 16}));
  EXPECT_EQ(choose(policy, 2, 5), (std::vector<int32_t>{5, 5}));
}

// Feeds passes of n sequences in which each draft survives with `chance`; returns their mean width in the last hundred.
double settle(WidthPolicy& policy, double chance, int32_t n) {
  std::mt19937 random(5);
  std::uniform_real_distribution<double> uniform;
  double sum = 0;
  for (int pass = 0; pass < 300; ++pass) {
    const std::vector<int32_t> widths = choose(policy, n);
    for (int32_t slot = 0; slot < n; ++slot) {
      int32_t accepted = 0;
      while (accepted < widths[slot] - 1 && uniform(random) < chance) ++accepted;
      policy.observe(slot, widths[slot] - 1, accepted);
      if (pass >= 200) sum += widths[slot];
    }
  }
  return sum / 100 / n;
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
  WidthPolicy crowded(16, 16);
  crowded.set_costs(line(0.1, 1.0), line(0.1, 0.2));
  EXPECT_TRUE(crowded.hopeful());
  EXPECT_EQ(settle(crowded, 0.9, 16), 1.0);  // does not even try
  EXPECT_FALSE(crowded.hopeful());
}

// Sixteen sequences of a hundred steps each whose drafts are never right.
TEST(WidthPolicy, TryingAgainCostsHalfAPercent) {
  WidthPolicy policy(16, 16);
  policy.set_costs(line(1.0, 0.05), line(0.3, 0.01));
  const auto verify = [](double rows) { return 1.0 + 0.05 * rows; };
  double plain = 0;
  double probes = 0;
  for (int step = 0; step < 4000; ++step) {
    for (int32_t slot = 0; slot < 16; ++slot) {
      if ((step + 7 * slot) % 100 == 0) policy.admit(slot);
    }
    const std::vector<int32_t> widths = choose(policy, 16);
    for (int32_t slot = 0; slot < 16; ++slot) {
      const int32_t width = widths[slot];
      policy.observe(slot, width - 1, 0);
      if (step < 2000 || width == 1) continue;
      probes += verify(16 + width - 1) - verify(16) + 0.3 + 0.01 * width;
    }
    if (step >= 2000) plain += verify(16);
  }
  EXPECT_FALSE(policy.hopeful());
  EXPECT_GT(probes / plain, 0.002);
  EXPECT_LT(probes / plain, 0.007);
}

// A crowd that nobody drafted for is drafted for soon after its texts have become predictable.
TEST(WidthPolicy, FindsOutThatTextsHaveChanged) {
  WidthPolicy policy(16, 16);
  policy.set_costs(line(1.0, 0.03), line(0.3, 0.005));
  int64_t drafted = 0;
  for (int step = 0; step < 8000; ++step) {
    for (int32_t slot = 0; slot < 16; ++slot) {
      if ((step + 7 * slot) % 100 == 0) policy.admit(slot);
    }
    const std::vector<int32_t> widths = choose(policy, 16);
    for (int32_t slot = 0; slot < 16; ++slot) {
      const int32_t width = widths[slot];
      policy.observe(slot, width - 1, step < 2000 ? 0 : width - 1);
      if (step >= 7000) drafted += width - 1;
    }
    if (step == 1999) {
      EXPECT_FALSE(policy.hopeful());
    }
  }
  EXPECT_TRUE(policy.hopeful());
  EXPECT_GT(static_cast<double>(drafted) / 16 / 1000, 3);
}

// The mean width once the target's passes take `verify` times what the costs say, and the proposer's `draft` times.
double settle_with_times(double verify, double draft) {
  WidthPolicy policy(16, 1);
  policy.set_costs(line(1.0, 0.05), line(0.2, 0.01));
  double sum = 0;
  for (int step = 0; step < 2000; ++step) {
    const int32_t width = choose(policy, 1)[0];
    const int32_t drafted = width > 1 ? width : 0;
    policy.observe_step(1, width, drafted, (1.0 + 0.05 * width) * verify,
                        drafted > 0 ? (0.2 + 0.01 * width) * draft : 0);
    policy.observe(0, width - 1, std::min(width - 1, 1));  // always one draft: at most two tokens a step
    if (step >= 1000) sum += width;
  }
  return sum / 1000;
}

TEST(WidthPolicy, LearnsWhatTheCostsLeaveOut) {
  EXPECT_GT(settle_with_times(1.0, 1.0), 1.9);
  EXPECT_LT(settle_with_times(0.6, 3.0), 1.2);  // drafting does not pay
  EXPECT_GT(settle_with_times(2.5, 2.5), 1.9);  // everything takes longer: no reason to stop
}

// The mean width where a draft survives with a chance of 0.6 and passes take a third of what a disturbed calibration
// says.
TEST(WidthPolicy, SurvivesCostsThatWereFarTooHigh) {
  const auto mean_width = [](double calibrated) {
    WidthPolicy policy(16, 1);
    policy.set_costs(line(calibrated * 1.0, calibrated * 0.2), line(calibrated * 0.2, calibrated * 0.02));
    std::mt19937 random(5);
    std::uniform_real_distribution<double> uniform;
    double sum = 0;
    for (int step = 0; step < 1500; ++step) {
      const int32_t width = choose(policy, 1)[0];
      policy.observe_step(1, width, width > 1 ? width : 0, 1.0 + 0.2 * width, 0.2 + 0.02 * width);
      int32_t accepted = 0;
      while (accepted < width - 1 && uniform(random) < 0.6) ++accepted;
      policy.observe(0, width - 1, accepted);
      if (step >= 500) sum += width;
    }
    return sum / 1000;
  };
  EXPECT_GT(mean_width(1), 2);
  EXPECT_LT(mean_width(1), 7);
  EXPECT_NEAR(mean_width(3), mean_width(1), 0.5);
}

// A machine on which drafting drives the target's weights out of the cache: passes without drafts take `settled` of
// their cost once some came in a row. Of 12,000 steps of one sequence whose drafts survive with a chance of 0.6: tokens
// per time, held against that of plain decoding. Once in `quiet` passes a neighbour comes, and for twenty of them all
// that is measured takes 1.8 times as long.
double gain_where_plain_passes_settle(double settled, double calibrated, int quiet = 0) {
  WidthPolicy policy(16, 1);
  policy.set_costs(line(1.0, 0.05), line(0.2, 0.01), calibrated);
  std::mt19937 random(5);
  std::uniform_real_distribution<double> uniform;
  int plain = 0, disturbed = 0;
  double tokens = 0;
  double time = 0;
  for (int step = 0; step < 12000; ++step) {
    const int32_t width = choose(policy, 1)[0];
    plain = width > 1 ? 0 : plain + 1;
    const double verify = (1.0 + 0.05 * width) * (plain > 6 ? settled : 1.0);
    const double draft = width > 1 ? 0.2 + 0.01 * width : 0.0;
    int32_t accepted = 0;
    while (accepted < width - 1 && uniform(random) < 0.6) ++accepted;
    policy.observe(0, width - 1, accepted);
    if (quiet > 0 && uniform(random) * quiet < 1) disturbed = 20;
    const double slower = disturbed > 0 ? 1.8 : 1.0;
    disturbed = std::max(disturbed - 1, 0);
    policy.observe_step(1, width, width > 1 ? width : 0, slower * verify, slower * draft);
    if (step < 2000) continue;
    tokens += 1 + accepted;
    time += verify + draft;
  }
  return tokens / time * (1.05 * settled);
}

TEST(WidthPolicy, KnowsWhatPlainPassesTakeInARow) {
  for (const double calibrated : {0.4, 1.0}) {
    EXPECT_GT(gain_where_plain_passes_settle(0.4, calibrated), 0.98) << calibrated;  // drafting would give 0.65
    EXPECT_GT(gain_where_plain_passes_settle(1.0, calibrated), 1.47) << calibrated;
    // Plain passes are measured seldom while others are not, so what a neighbour did to them must not last.
    EXPECT_GT(gain_where_plain_passes_settle(0.5, calibrated, 250), 0.97) << calibrated;  // drafting would give 0.8
  }
}

// What a crowd adds to every pass says nothing for drafts, though only passes without were seen in it.
TEST(WidthPolicy, CrowdsDoNotMakeDraftsCheaper) {
  WidthPolicy policy(16, 16);
  policy.set_costs(line(0.1, 0.1), line(0.05, 0.02));
  for (int step = 0; step < 500; ++step) {
    policy.observe_step(1, 4, 4, 0.5, 0.13);
    policy.observe_step(16, 16, 0, 1.8 * 1.7, 0);
  }
  for (int step = 0; step < 100; ++step) {
    for (const int32_t width : choose(policy, 16)) EXPECT_EQ(width, 1);
  }
  EXPECT_FALSE(policy.hopeful());
}

TEST(WidthPolicy, NarrowsInCompany) {
  WidthPolicy alone(16, 1);
  WidthPolicy together(16, 16);
  for (WidthPolicy* policy : {&alone, &together}) policy->set_costs(line(1.0, 0.03), line(0.2, 0.01));
  EXPECT_GT(settle(alone, 0.8, 1), settle(together, 0.8, 16));
}

// One predictable text among fifteen others drafts for itself alone, as widely as fifteen more rows are worth.
TEST(WidthPolicy, TellsSequencesApart) {
  WidthPolicy policy(16, 16);
  policy.set_costs(line(1.0, 0.05), line(0.05, 0.005));
  for (int pass = 0; pass < 100; ++pass) {
    for (int32_t slot = 0; slot < 16; ++slot) policy.observe(slot, 15, slot == 3 ? 15 : 0);
  }
  const std::vector<int32_t> widths = choose(policy, 16);
  for (int32_t slot = 0; slot < 16; ++slot) {
    if (slot == 3) {
      EXPECT_GT(widths[slot], 8);
    } else {
      EXPECT_EQ(widths[slot], 1);
    }
  }
}

// Bad luck is forgiven in company, too.
TEST(WidthPolicy, ForgivesWhileOthersDraft) {
  WidthPolicy policy(16, 2);
  policy.set_costs(line(1.0, 0.02), line(0.1, 0.005));
  for (int pass = 0; pass < 60; ++pass) policy.observe(0, 15, 15);
  for (int pass = 0; pass < 30; ++pass) policy.observe(1, 15, 0);
  EXPECT_EQ(choose(policy, 2)[1], 1);
  int32_t widest = 1;
  for (int pass = 0; pass < 100; ++pass) {
    const std::vector<int32_t> widths = choose(policy, 2);
    EXPECT_GT(widths[0], 8);
    policy.observe(0, widths[0] - 1, widths[0] - 1);
    widest = std::max(widest, widths[1]);
  }
  EXPECT_GT(widest, 1);
}

// Where the proposer is slow in company alone, it is left out in company alone.
TEST(WidthPolicy, LearnsCrowdsApart) {
  WidthPolicy policy(16, 8);
  policy.set_costs(line(1.0, 0.02), line(0.3, 0.02));
  for (int pass = 0; pass < 50; ++pass) {
    for (int32_t slot = 0; slot < 8; ++slot) policy.observe(slot, 15, 2);
  }
  EXPECT_GT(choose(policy, 1)[0], 1);
  EXPECT_GT(choose(policy, 8)[0], 1);
  for (int pass = 0; pass < 100; ++pass) {
    policy.observe_step(1, 3, 3, 1.06, 0.36);
    policy.observe_step(8, 24, 24, 1.48, 3 * 0.78);
  }
  EXPECT_GT(choose(policy, 1)[0], 1);
  EXPECT_EQ(choose(policy, 8)[0], 1);
}

TEST(WidthPolicy, ForgetsTheSlotsLastSequence) {
  WidthPolicy policy(16, 2);
  policy.set_costs(line(1.0, 0.05), line(0.2, 0.01));
  for (int pass = 0; pass < 500; ++pass) policy.observe(1, 8, pass % 9);
  const double fresh = policy.survival(0, 3);
  EXPECT_NEAR(fresh, 6.0 / 9, 0.05);
  for (int pass = 0; pass < 15; ++pass) policy.observe(0, 8, 0);
  EXPECT_LT(policy.survival(0, 3), fresh / 1.5);
  policy.admit(0);
  EXPECT_NEAR(policy.survival(0, 3), fresh, 0.1 * fresh);
}

// A proposer that knows its chances is believed as far as it was right.
TEST(WidthPolicy, LearnsFromTheChancesOfTrees) {
  for (const double truth : {1.0, 0.5}) {
    WidthPolicy policy(8, 2);
    std::mt19937 random(4);
    std::uniform_real_distribution<double> uniform;
    const float chances[] = {0.8F, 0.6F, 0.4F, 0.3F, 0.2F, 0.1F, 0.05F};
    double expected = 0;
    for (const float chance : chances) expected += chance;
    for (int pass = 0; pass < 3000; ++pass) {
      int32_t accepted = 0;
      for (const float chance : chances) accepted += uniform(random) < truth * chance ? 1 : 0;
      policy.observe_tree(0, chances, expected, accepted);
    }
    for (int32_t k = 1; k < 8; ++k) {  // of a sequence that nothing is known of yet
      EXPECT_NEAR(policy.survival(1, k), truth * chances[k - 1], 0.15 * truth * chances[k - 1]) << truth << " " << k;
    }
    EXPECT_EQ(policy.survival(0, 0), 1.0);
    // What is not foreseen is not expected.
    for (int pass = 0; pass < 500; ++pass) policy.observe_tree(0, std::span(chances, 2), 1.4, 1);
    EXPECT_LT(policy.survival(0, 3), 1e-6);
  }
}

// A calibration that met a noisy neighbour at eight rows is corrected by what passes of eight rows take.
TEST(WidthPolicy, LearnsWhatPassesOfEachWidthTake) {
  WidthPolicy policy(8, 1);
  RowCost verify, draft;
  verify.add(1, 1.0);
  verify.add(4, 1.2);
  verify.add(8, 3.0);  // in truth 1.3
  draft.add(2, 0.1);
  draft.add(8, 0.1);
  policy.set_costs(verify, draft);
  std::mt19937 random(6);
  std::uniform_real_distribution<double> uniform;
  double early = 0, late = 0;
  for (int pass = 0; pass < 2000; ++pass) {
    const int32_t width = choose(policy, 1)[0];
    (pass < 20 ? early : late) += pass < 20 || pass >= 1800 ? width / (pass < 20 ? 20.0 : 200.0) : 0;
    // Now and then it is tried all the same: a request that was promised width, a constraint that knows what comes.
    const int32_t rows = pass % 10 == 0 ? 8 : width;
    policy.observe_step(1, rows, width > 1 ? width : 0, 1.0 + 0.04 * rows, width > 1 ? 0.1 : 0.0);
    int32_t accepted = 0;
    while (accepted < width - 1 && uniform(random) < 0.9) ++accepted;
    policy.observe(0, width - 1, accepted);
  }
  EXPECT_LT(early, 5.0);
  EXPECT_GT(late, 7.0);
}

// Tokens per time of 20,000 steps of sequences of 40 steps whose drafts survive with a chance of 0.6, held against the
// best of all fixed widths, where one measurement in `rare` is of a pass that waited for something else.
double gain_among_neighbours(int rare) {
  const auto verify = [](int32_t width) { return 1.0 + 0.04 * width; };
  const auto draft = [](int32_t width) { return width > 1 ? 0.3 + 0.01 * width : 0.0; };
  double best = 0;
  for (int32_t width = 1; width <= 16; ++width) {
    best = std::max(best, (1 - std::pow(0.6, width)) / (1 - 0.6) / (verify(width) + draft(width)));
  }
  WidthPolicy policy(16, 1);
  policy.set_costs(line(1.0, 0.04), line(0.3, 0.01));
  std::mt19937 random(7);
  std::uniform_real_distribution<double> uniform;
  const auto measured = [&](double time) {
    time *= 0.8 + 0.4 * uniform(random);
    return uniform(random) * rare < 1 ? 4 * time : time;
  };
  double tokens = 0, time = 0;
  for (int step = 0; step < 20000; ++step) {
    if (step % 40 == 0) policy.admit(0);
    const int32_t width = choose(policy, 1)[0];
    int32_t accepted = 0;
    while (accepted < width - 1 && uniform(random) < 0.6) ++accepted;
    policy.observe(0, width - 1, accepted);
    const double drafted = draft(width);
    policy.observe_step(1, width, width > 1 ? width : 0, measured(verify(width)), measured(drafted));
    tokens += 1 + accepted;
    time += verify(width) + drafted;
  }
  return tokens / time / best;
}

// Passes that lost their core to others make neither drafts nor plain decoding look better than they are.
TEST(WidthPolicy, IsNotMisledByBusyMachines) {
  EXPECT_GT(gain_among_neighbours(1 << 30), 0.97);
  EXPECT_GT(gain_among_neighbours(25), 0.97);
}

TEST(WidthPolicy, WholeBlocksAreFilledWhereThatCostsLittle) {
  for (const double price : {0.001, 0.2}) {  // of a row of the proposer
    WidthPolicy policy(16, 1);
    RowCost verify, draft;
    for (const int32_t rows : {1, 4, 16}) verify.add(rows, 1.0 + 0.05 * rows);
    for (const int32_t rows : {2, 4, 16}) draft.add(rows, 0.2 + price * rows);
    policy.set_costs(verify, draft);
    std::vector<WidthChoice> one = {{0, 16}};
    const bool whole = policy.choose(one);
    if (one[0].width == 1) continue;
    ASSERT_LT(one[0].width, 16);
    EXPECT_EQ(whole, price < 0.01);
  }
}

}  // namespace
}  // namespace ashlar::testing
