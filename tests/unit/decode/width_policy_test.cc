// SPDX-License-Identifier: Apache-2.0
#include "decode/policy/width_policy.h"

#include <gtest/gtest.h>

#include "unit/decode/simulated_device.h"

namespace ashlar::testing {
namespace {

SimulatedDevice device(RowCost verify, RowCost draft) {
  SimulatedDevice device;
  device.verify = {std::move(verify)};
  device.draft = {std::move(draft)};
  return device;
}

std::vector<SimulatedSequence> texts(size_t n, double chance, int32_t context = 0) { return {n, {context, chance}}; }

// The mean width in the last hundred of 400 steps.
double mean_width(const SimulatedDevice& device, double chance, size_t n = 1) {
  return simulate(device, texts(n, chance), 400, 300).width;
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

TEST(WidthPolicy, WidensWhereRowsAreCheapAndDraftsSurvive) {
  SimulatedDevice cheap = device(line(1.0, 0.01), line(0.2, 0.01));
  EXPECT_GT(mean_width(cheap, 0.95), 13);
  EXPECT_LT(mean_width(cheap, 0.4), 9);
  cheap.text = [](int step, double chance) { return step < 200 ? 0.4 : chance; };
  EXPECT_GT(mean_width(cheap, 0.95), 12);  // and comes back
  EXPECT_GT(mean_width(device(line(1.0, 0.03), line(0.2, 0.01)), 0.8, 1),
            mean_width(device(line(1.0, 0.03), line(0.2, 0.01)), 0.8, 16));
}

TEST(WidthPolicy, NarrowsWhereRowsAreDear) {
  const double middling = mean_width(device(line(1.0, 0.2), line(0.2, 0.05)), 0.7);
  EXPECT_GT(middling, 1.5);
  EXPECT_LT(middling, 7);
}

// The same rows of the same texts, where attention makes a row dear.
TEST(WidthPolicy, NarrowsInLongContexts) {
  SimulatedDevice device = testing::device(line(1.0, 0.01), line(0.1, 0.005));
  device.verify.row_key = 1e-5;
  const auto width = [&](int32_t context) { return simulate(device, texts(1, 0.8, context), 400, 300).width; };
  EXPECT_GT(width(200), 10);
  EXPECT_LT(width(30000), 0.7 * width(200));
  EXPECT_GT(width(30000), 1.5);
  device.draft.key = 1e-4;  // a pass of the proposer takes three plain steps
  EXPECT_LT(width(30000), 1.2);
}

// Of two texts that are alike the one in a short context gets more rows; one that does not pay for the proposer's
// reading its context none.
TEST(WidthPolicy, TellsContextsApart) {
  const auto widths = [](double draft_key) {
    WidthPolicy policy(16, 2);
    policy.costs().set({line(1.0, 0.02), 0, 2e-6}, {line(0.1, 0.005), draft_key, 0}, 1.0);
    std::vector<WidthChoice> two = {{0, 16}, {1, 16}};
    two[0].keys = two[0].draft_keys = 30000;
    two[1].keys = two[1].draft_keys = 200;
    policy.choose(two);
    return std::pair(two[0].width, two[1].width);
  };
  const auto [far, near] = widths(0);
  EXPECT_GT(far, 1);
  EXPECT_GT(near, far + 1);
  EXPECT_EQ(widths(1e-4).first, 1);
  EXPECT_GE(widths(1e-4).second, near);
}

TEST(WidthPolicy, StopsDraftingWhereItDoesNotPayButTriesAgain) {
  const double mean = mean_width(device(line(1.0, 0.3), line(0.1, 0.1)), 0.1);
  EXPECT_LT(mean, 1.5);
  EXPECT_GT(mean, 1.0);
}

TEST(WidthPolicy, GivesUpWhereNotEvenGoodDraftsPay) {
  const SimulatedRun few = simulate(device(line(4.0, 0.2), line(0.3, 0.05)), texts(1, 0.9), 400, 300);
  EXPECT_GT(few.width, 8);
  EXPECT_TRUE(few.hopeful);
  const SimulatedRun many = simulate(device(line(0.1, 1.0), line(0.1, 0.2)), texts(16, 0.5), 400, 300);
  EXPECT_EQ(many.width, 1.0);  // does not even try
  EXPECT_FALSE(many.hopeful);
}

// Sixteen sequences of a hundred steps each whose drafts are never right.
TEST(WidthPolicy, TryingAgainCostsHalfAPercent) {
  SimulatedDevice device = testing::device(line(1.0, 0.05), line(0.3, 0.01));
  device.answer = 100;
  const SimulatedRun run = simulate(device, texts(16, 0.0), 4000, 2000);
  const double plain = 16 / (1.0 + 16 * 0.05);
  EXPECT_FALSE(run.hopeful);
  EXPECT_LT(run.rate(), 0.998 * plain);
  EXPECT_GT(run.rate(), 0.993 * plain);
}

// Before anything is known of drafts, as many sequences as decode together find out together.
TEST(WidthPolicy, ManySequencesLearnFromEachOther) {
  const SimulatedDevice device = testing::device(line(5.7, 0.02), line(1.4, 0.005));
  for (const size_t n : {16, 64}) {
    const double plain = static_cast<double>(n) / (5.7 + static_cast<double>(n) * 0.02);
    EXPECT_GT(simulate(device, texts(n, 0.0), 64, 0).rate(), 0.97 * plain) << n;
  }
}

// Sequences that were not drafted for are drafted for soon after their texts have become predictable.
TEST(WidthPolicy, FindsOutThatTextsHaveChanged) {
  SimulatedDevice device = testing::device(line(1.0, 0.03), line(0.3, 0.005));
  device.answer = 100;
  EXPECT_FALSE(simulate(device, texts(16, 0.0), 2000, 0).hopeful);
  device.text = [](int step, double) { return step < 2000 ? 0.0 : 1.0; };
  const SimulatedRun run = simulate(device, texts(16, 0.0), 8000, 7000);
  EXPECT_TRUE(run.hopeful);
  EXPECT_GT(run.width, 4);
}

// The mean width once the target's passes take `verify` times what the costs say, and the proposer's `draft` times:
// always one draft is accepted, so that a step yields two tokens at most.
double width_with_times(double verify, double draft) {
  SimulatedDevice device = testing::device(line(1.0, 0.05), line(0.2, 0.01));
  device.max_width = 2;
  device.truth = [=](int32_t, const PassLoad&) { return verify; };
  device.draft_truth = [=](const PassLoad&) { return draft; };
  return simulate(device, texts(1, 1.0), 2000, 1000).width;
}

TEST(WidthPolicy, LearnsWhatTheCostsLeaveOut) {
  EXPECT_GT(width_with_times(1.0, 1.0), 1.9);
  EXPECT_LT(width_with_times(0.6, 3.0), 1.2);  // drafting does not pay
  EXPECT_GT(width_with_times(2.5, 2.5), 1.9);  // everything takes longer: no reason to stop
}

// A machine on which drafting drives the target's weights out of the cache: passes without drafts take `steady` of
// their cost once some came in a row. Tokens per time, held against those of plain decoding. Once in about `quiet`
// passes a neighbour comes, and for twenty of them all takes 1.8 times as long.
double gain_where_plain_passes_are_steady(double steady, double calibrated, int quiet = 0) {
  SimulatedDevice device = testing::device(line(1.0, 0.05), line(0.2, 0.01));
  device.steady = steady;
  device.calibrated_steady = calibrated;
  if (quiet > 0) device.slower = [quiet](int step) { return (step + 100) % quiet < 20 ? 1.8 : 1.0; };
  return simulate(device, texts(1, 0.6), 12000, 2000).rate() / simulate(device, texts(1, 0.6), 12000, 2000, 1).rate();
}

TEST(WidthPolicy, KnowsWhatPlainPassesTakeInARow) {
  for (const double calibrated : {0.4, 1.0}) {
    EXPECT_GT(gain_where_plain_passes_are_steady(0.4, calibrated), 0.98) << calibrated;  // drafting would give 0.65
    EXPECT_GT(gain_where_plain_passes_are_steady(1.0, calibrated), 1.47) << calibrated;
    EXPECT_GT(gain_where_plain_passes_are_steady(0.5, calibrated, 270), 0.97) << calibrated;  // would give 0.8
  }
}

// What many sequences add to every pass says nothing for drafts, though only passes without were seen with them.
TEST(WidthPolicy, ManySequencesDoNotMakeDraftsCheaper) {
  WidthPolicy policy(16, 16);
  set_costs(policy, line(0.1, 0.1), line(0.05, 0.02));
  for (int step = 0; step < 100; ++step) policy.survival().observe(step % 16, 3, step % 3);
  for (int step = 0; step < 500; ++step) {
    policy.costs().observe({4, 0, 0}, {4, 0, 0}, 0.5, 0.13);
    policy.costs().observe({16, 0, 0}, {}, 1.8 * 1.7, 0);
  }
  int32_t drafts = 0;
  for (int step = 0; step < 100; ++step) {
    for (const int32_t width : choose(policy, 16)) drafts += width - 1;
  }
  EXPECT_LE(drafts, 6);  // a trial or two, of three drafts each
  EXPECT_FALSE(policy.hopeful());
}

// Where answers end together, a few steps of the last of them are followed by as many new ones.
TEST(WidthPolicy, AFewStepsOfFewSequencesBringNoHope) {
  WidthPolicy policy(16, 16);
  set_costs(policy, line(10.0, 0.5), line(0.05, 0.01));
  for (int step = 0; step < 100; ++step) policy.survival().observe(step % 16, 3, 0);
  const auto hopes_after = [&](int32_t steps, int32_t sequences) {
    for (int32_t step = 0; step < steps; ++step) choose(policy, sequences);
    return policy.hopeful();
  };
  EXPECT_TRUE(hopes_after(20, 1));
  EXPECT_FALSE(hopes_after(40, 16));
  for (int wave = 0; wave < 5; ++wave) {
    EXPECT_FALSE(hopes_after(3, 1));
    EXPECT_FALSE(hopes_after(20, 16));
  }
  EXPECT_TRUE(hopes_after(20, 1));
}

// Where the proposer is slow with many sequences alone, it is left out there alone.
TEST(WidthPolicy, LearnsWhereTheProposerIsSlow) {
  SimulatedDevice device = testing::device(line(1.0, 0.02), line(0.3, 0.02));
  device.draft_truth = [](const PassLoad& drafted) { return drafted.rows > 10 ? 5.0 : 1.0; };
  EXPECT_GT(mean_width(device, 0.6, 1), 1.5);
  EXPECT_LT(mean_width(device, 0.6, 8), 1.2);
}

RowCost curve(std::initializer_list<std::pair<int32_t, double>> points, int32_t most) {
  RowCost cost;
  for (const auto& [rows, time] : points) {
    if (rows <= most) cost.add(rows, time);
  }
  return cost;
}

// Milliseconds of a model of 8 B and its drafter on an H100: flat to 64 rows, then ever steeper. What lies beyond 512
// rows is not calibrated, so that plans for many sequences rest on what steps of as many rows took.
TEST(WidthPolicy, FindsWidthsWherePricesAreFlatAndThenRise) {
  const auto verify = [](int32_t most) {
    return curve({{1, 5.73},
                  {8, 5.8},
                  {16, 5.96},
                  {32, 6.4},
                  {64, 7.0},
                  {128, 8.2},
                  {256, 11.8},
                  {512, 16},
                  {1024, 32},
                  {2048, 64}},
                 most);
  };
  const auto draft = [](int32_t most) {
    return curve(
        {{2, 1.45}, {16, 1.5}, {32, 1.6}, {64, 1.75}, {128, 2.3}, {256, 3.6}, {512, 5.5}, {1024, 11}, {2048, 22}},
        most);
  };
  const SimulatedDevice true_device = device(verify(2048), draft(2048));
  SimulatedDevice calibrated = device(verify(512), draft(512));
  calibrated.answer = 64;
  calibrated.truth = [&](int32_t, const PassLoad& load) {
    return true_device.verify.of(load) / calibrated.verify.of(load);
  };
  calibrated.draft_truth = [&](const PassLoad& load) { return true_device.draft.of(load) / calibrated.draft.of(load); };
  for (const int32_t n : {1, 8, 32, 64, 128}) {
    for (const double chance : {0.0, 0.3, 0.6, 0.85}) {
      const FixedWidths fixed = expected_fixed(true_device, n, {0, chance});
      const double rate = simulate(calibrated, texts(static_cast<size_t>(n), chance), 1000, 0).rate();
      EXPECT_GT(rate, 0.98 * fixed.plain) << n << " sequences, " << chance;
      if (chance <= 0.5) continue;
      EXPECT_GT(rate, 0.95 * fixed.best) << n << " sequences, " << chance << ", best " << fixed.best_width;
    }
  }
}

// One predictable text among fifteen others drafts for itself alone, as widely as fifteen more rows are worth.
TEST(WidthPolicy, TellsSequencesApart) {
  WidthPolicy policy(16, 16);
  set_costs(policy, line(1.0, 0.05), line(0.05, 0.005));
  for (int pass = 0; pass < 100; ++pass) {
    for (int32_t slot = 0; slot < 16; ++slot) policy.survival().observe(slot, 15, slot == 3 ? 15 : 0);
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

// Bad luck is forgiven while others draft, too.
TEST(WidthPolicy, ForgivesWhileOthersDraft) {
  WidthPolicy policy(16, 2);
  set_costs(policy, line(1.0, 0.02), line(0.1, 0.005));
  for (int pass = 0; pass < 60; ++pass) policy.survival().observe(0, 15, 15);
  for (int pass = 0; pass < 30; ++pass) policy.survival().observe(1, 15, 0);
  EXPECT_EQ(choose(policy, 2)[1], 1);
  int32_t widest = 1;
  for (int pass = 0; pass < 100; ++pass) {
    const std::vector<int32_t> widths = choose(policy, 2);
    EXPECT_GT(widths[0], 8);
    policy.survival().observe(0, widths[0] - 1, widths[0] - 1);
    widest = std::max(widest, widths[1]);
  }
  EXPECT_GT(widest, 1);
}

TEST(WidthPolicy, ForgetsTheSlotsLastSequence) {
  SurvivalEstimates survival(2);
  for (int pass = 0; pass < 500; ++pass) survival.observe(1, 8, pass % 9);
  const double fresh = survival.of(0).chance[3];
  EXPECT_NEAR(fresh, 6.0 / 9, 0.05);
  for (int pass = 0; pass < 15; ++pass) survival.observe(0, 8, 0);
  EXPECT_LT(survival.of(0).chance[3], fresh / 1.5);
  survival.admit(0);
  EXPECT_NEAR(survival.of(0).chance[3], fresh, 0.1 * fresh);
}

// A proposer that knows its chances is believed as far as it was right.
TEST(WidthPolicy, LearnsFromTheChancesOfProposers) {
  for (const double truth : {1.0, 0.5}) {
    SurvivalEstimates survival(2);
    std::mt19937 random(4);
    std::uniform_real_distribution<double> uniform;
    const float chances[] = {0.8F, 0.6F, 0.4F, 0.3F, 0.2F, 0.1F, 0.05F};
    double expected = 0;
    for (const float chance : chances) expected += chance;
    for (int pass = 0; pass < 3000; ++pass) {
      int32_t accepted = 0;
      for (const float chance : chances) accepted += uniform(random) < truth * chance ? 1 : 0;
      survival.observe(0, chances, expected, accepted);
    }
    for (int32_t k = 1; k < 8; ++k) {  // of a sequence that nothing is known of yet
      EXPECT_NEAR(survival.of(1).chance[k], truth * chances[k - 1], 0.15 * truth * chances[k - 1]) << truth << " " << k;
    }
    EXPECT_EQ(survival.of(0).chance[0], 1.0);
    // What is not proposed is not expected.
    for (int pass = 0; pass < 500; ++pass) survival.observe(0, std::span(chances, 2), 1.4, 1);
    EXPECT_LT(survival.of(0).chance[3], 1e-6);
  }
}

// A calibration that met a noisy neighbour at eight rows is corrected by what passes of eight rows take, which are seen
// now and then: a request that was promised width, a constraint that knows what comes.
TEST(WidthPolicy, LearnsWhatPassesOfEachWidthTake) {
  WidthPolicy policy(8, 1);
  RowCost verify, draft;
  verify.add(1, 1.0);
  verify.add(4, 1.2);
  verify.add(8, 3.0);  // in truth 1.3
  draft.add(2, 0.1);
  draft.add(8, 0.1);
  set_costs(policy, verify, draft);
  std::mt19937 random(6);
  std::uniform_real_distribution<double> uniform;
  double early = 0, late = 0;
  for (int pass = 0; pass < 2000; ++pass) {
    const int32_t width = choose(policy, 1)[0];
    if (pass == 0) early = width;
    if (pass >= 1800) late += width / 200.0;
    const double rows = pass % 10 == 0 ? 8 : width;
    policy.costs().observe({rows, 0, 0}, {width > 1 ? double(width) : 0.0, 0, 0}, 1.0 + 0.04 * rows, 0.1);
    int32_t accepted = 0;
    while (accepted < width - 1 && uniform(random) < 0.9) ++accepted;
    policy.survival().observe(0, width - 1, accepted);
  }
  EXPECT_LT(early, 5.0);
  EXPECT_GT(late, 7.0);
}

TEST(WidthPolicy, WholeBlocksAreFilledWhereThatCostsLittle) {
  for (const double price : {0.001, 0.2}) {  // of a row of the proposer
    WidthPolicy policy(16, 1);
    RowCost verify, draft;
    for (const int32_t rows : {1, 4, 16}) verify.add(rows, 1.0 + 0.05 * rows);
    for (const int32_t rows : {2, 4, 16}) draft.add(rows, 0.2 + price * rows);
    set_costs(policy, verify, draft);
    std::vector<WidthChoice> one = {{0, 16}};
    const bool whole = policy.choose(one);
    if (one[0].width == 1) continue;
    ASSERT_LT(one[0].width, 16);
    EXPECT_EQ(whole, price < 0.01);
  }
}

// A proposer that computes whole blocks is paid for with the first draft; further ones cost the rows that verify them.
TEST(WidthPolicy, WholeBlocksArePaidForWhereTheProposerComputesThem) {
  const auto width = [](ProposerRows rows, double price, double draft_row_key = 0) {
    WidthPolicy policy(16, 1, rows);
    policy.costs().set({line(1.0, 0.02), 0, 0}, {line(0.05, price), 0, draft_row_key}, 1.0);
    std::vector<WidthChoice> one = {{0, 16}};
    one[0].keys = one[0].draft_keys = 1000;
    EXPECT_EQ(policy.choose(one), rows == ProposerRows::kAll || (price < 0.01 && draft_row_key == 0)) << price;
    return one[0].width;
  };
  // By what a row of the proposer takes: free, as dear as those that verify, and so dear that 16 of them never pay.
  EXPECT_EQ(width(ProposerRows::kAll, 0.0001), width(ProposerRows::kAsWanted, 0.0001));
  EXPECT_GT(width(ProposerRows::kAll, 0.03), width(ProposerRows::kAsWanted, 0.03));
  EXPECT_GT(width(ProposerRows::kAsWanted, 0.2), 1);
  EXPECT_EQ(width(ProposerRows::kAll, 0.2), 1);
  // The same where attention to a long context is what a row takes.
  EXPECT_GT(width(ProposerRows::kAsWanted, 0.0001, 2e-4), 1);
  EXPECT_EQ(width(ProposerRows::kAll, 0.0001, 2e-4), 1);
}

}  // namespace
}  // namespace ashlar::testing
