// SPDX-License-Identifier: Apache-2.0
// Unmasking algorithms on blocks written down by hand, against what their papers say.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/error.h"
#include "decode/block/algorithms.h"
#include "unit/decode/fill_candidate.h"

namespace ashlar::testing {
namespace {

using ::testing::HasSubstr;

// A block after a pass; position i gets candidate 100 + i.
struct FakeBlock {
  explicit FakeBlock(std::vector<float> confidences) : confidence(std::move(confidences)) {
    const size_t n = confidence.size();
    ids.assign(n, 7);
    statistics.resize(n);
    for (size_t i = 0; i < n; ++i) {
      candidates.push_back(static_cast<int32_t>(100 + i));
      statistics[i].best = candidates[i];
      statistics[i].p_best = confidence[i];
    }
    view.n = static_cast<int32_t>(n);
    view.open = view.masked = first_positions(view.n);
    view.vocab = 1000;
  }

  Decision decide(const UnmaskAlgorithm& algorithm) {
    view.ids = ids.data();
    view.candidates = candidates.data();
    view.confidence = confidence.data();
    view.statistics = statistics.data();
    return algorithm.decide(view, memory);
  }
  // Decides and does what the decision says, as the decoder would.
  Decision step(const UnmaskAlgorithm& algorithm) {
    Decision decision = decide(algorithm);
    decision.unmask |= decision.verify & -decision.verify;  // no draft agrees
    for (int32_t i = 0; i < view.n; ++i) {
      if (has(decision.unmask | decision.edit, i)) ids[i] = candidates[i];
    }
    view.masked &= ~decision.unmask;
    view.open = view.masked;
    view.unmasked |= decision.unmask;
    ++view.pass;
    return decision;
  }
  // What low-confidence algorithms get to see at 7 of 8 positions unmasked.
  void leave_open(Positions positions) { view.open = view.masked = positions; }

  BlockView view;
  AlgorithmMemory memory;
  std::vector<float> confidence;
  std::vector<int32_t> ids, candidates;
  std::vector<RowStatistics> statistics;
};

std::unique_ptr<UnmaskAlgorithm> rule_of(const std::string& name, std::map<std::string, double> values = {},
                                         int32_t n = 8) {
  return make_algorithm({name, std::move(values)}, n);
}

Positions at(std::initializer_list<int32_t> positions) {
  Positions bits = 0;
  for (const int32_t i : positions) bits |= Positions{1} << i;
  return bits;
}

TEST(LowConfidence, AboveTheThresholdNotAtIt) {
  const auto algorithm = rule_of("low_confidence", {{"threshold", 0.75}});
  EXPECT_EQ(FakeBlock({0.75F, 0.76F, 0.2F, 0.9F}).decide(*algorithm).unmask, at({1, 3}));
  EXPECT_EQ(FakeBlock({0.75F, 0.2F}).decide(*algorithm).unmask, at({0}));  // the best where none is above
}

TEST(LowConfidence, TiesGoToTheLowestAndClosedPositionsTakeNoPart) {
  const auto algorithm = rule_of("low_confidence");
  FakeBlock block({0.5F, 0.5F, 0.5F, 0.99F});
  block.leave_open(at({1, 2}));
  EXPECT_EQ(block.decide(*algorithm).unmask, at({1}));
}

TEST(Schedules, SumToTheBlockRemainderFirst) {
  for (const char* name : {"static", "sequential"}) {
    for (int32_t n = 1; n <= kMaxWidth; ++n) {
      for (int32_t steps = 1; steps <= n; ++steps) {
        const auto algorithm = rule_of(name, {{"steps", steps}}, n);
        FakeBlock block(std::vector<float>(n, 0.5F));
        int32_t before = n;
        for (int32_t pass = 0; pass < steps; ++pass) {
          const int32_t unmasked = count(block.step(*algorithm).unmask);
          EXPECT_TRUE(unmasked == n / steps || unmasked == n / steps + 1);
          EXPECT_LE(unmasked, before);
          before = unmasked;
        }
        ASSERT_EQ(block.view.masked, 0U) << name << " " << n << " in " << steps;
      }
    }
  }
}

TEST(Schedules, TakeTheBestOrTheNext) {
  const std::vector<float> confidence = {0.1F, 0.4F, 0.9F, 0.4F};
  EXPECT_EQ(FakeBlock(confidence).decide(*rule_of("static", {{"steps", 2}}, 4)).unmask, at({1, 2}));
  EXPECT_EQ(FakeBlock(confidence).decide(*rule_of("sequential", {{"steps", 2}}, 4)).unmask, at({0, 1}));
  EXPECT_EQ(FakeBlock(confidence).decide(*rule_of("static", {}, 4)).unmask, at({2}));
  // A block that the prompt has begun: fewer masked positions than a share.
  FakeBlock block(confidence);
  block.leave_open(at({3}));
  EXPECT_EQ(block.decide(*rule_of("static", {{"steps", 1}}, 4)).unmask, at({3}));
}

TEST(EntropyBound, SumsWhatWasTakenBefore) {
  const auto unmasked = [](double gamma, std::vector<float> entropies) {
    FakeBlock block(std::vector<float>(entropies.size(), 0.5F));
    for (size_t i = 0; i < entropies.size(); ++i) block.statistics[i].entropy = entropies[i];
    return block.decide(*rule_of("entropy_bound", {{"gamma", gamma}})).unmask;
  };
  EXPECT_EQ(unmasked(0.25, {3, 0.125F, 0.125F, 2}), at({1, 2, 3}));  // 0.25 before the third: still at the bound
  EXPECT_EQ(unmasked(0.24, {3, 0.125F, 0.125F, 2}), at({1, 2}));
  EXPECT_EQ(unmasked(0, {3, 2, 2}), at({1}));
  EXPECT_EQ(unmasked(0, {0, 5, 0}), at({0, 1, 2}));  // certain ones cost nothing
}

// SDAR's sum counts the position itself: the same number unmasks fewer.
TEST(EntropyBounded, SumsWhatIsTakenWithIt) {
  const auto unmasked = [](double bound, std::vector<float> entropies) {
    FakeBlock block(std::vector<float>(entropies.size(), 0.5F));
    for (size_t i = 0; i < entropies.size(); ++i) block.statistics[i].entropy = entropies[i];
    return block.decide(*rule_of("entropy_bounded", {{"eb_threshold", bound}})).unmask;
  };
  EXPECT_EQ(unmasked(0.26, {3, 0.125F, 0.125F, 2}), at({1, 2}));
  EXPECT_EQ(unmasked(0.25, {3, 0.125F, 0.125F, 2}), at({1}));  // 0.25 with the second: not below the bound
  EXPECT_EQ(unmasked(2.26, {3, 0.125F, 0.125F, 2}), at({1, 2, 3}));
  EXPECT_EQ(unmasked(0.1, {3, 2, 2}), at({1}));  // one in each pass, however unsure
  EXPECT_EQ(unmasked(0, {0, 5, 0}), at({0}));
  EXPECT_EQ(unmasked(1000, {3, 2, 2}), at({0, 1, 2}));
}

TEST(Factor, TheMoreAtOnceTheSurer) {
  const auto algorithm = rule_of("factor", {{"factor", 1}});
  EXPECT_EQ(FakeBlock({0.1F, 0.2F}).decide(*algorithm).unmask, at({1}));  // bounds 1/2, 2/3, 3/4, ...
  EXPECT_EQ(FakeBlock({0.75F, 0.3F, 0.8F}).decide(*algorithm).unmask, at({0, 2}));
  EXPECT_EQ(FakeBlock({0.75F, 0.75F, 0.75F, 0.75F}).decide(*algorithm).unmask, at({0, 1, 2}));
  EXPECT_EQ(FakeBlock({0.66F, 0.66F}).decide(*algorithm).unmask, at({0}));
}

TEST(JointThreshold, EditsWhatIsUnmaskedAndNeverThePrompt) {
  const auto algorithm = rule_of("joint_threshold", {{"threshold", 0.5}, {"edit_threshold", 0.25}});
  FakeBlock block({0.9F, 0.25F, 0.3F, 0.5F, 0.6F});
  block.leave_open(at({3, 4}));
  block.view.unmasked = at({1, 2});
  const Decision decision = block.decide(*algorithm);
  EXPECT_EQ(decision.unmask, at({4}));
  EXPECT_EQ(decision.edit, at({2}));
  EXPECT_FALSE(decision.finished);
}

TEST(JointThreshold, IsFinishedWhenAFullBlockStaysAsItIs) {
  const auto algorithm = rule_of("joint_threshold");
  FakeBlock block({0.9F, 0.9F});
  EXPECT_FALSE(block.step(*algorithm).finished);
  const Decision last = block.step(*algorithm);
  EXPECT_TRUE(last.finished);
  EXPECT_EQ(last.unmask | last.edit, 0U);
}

TEST(JointThreshold, TwoCyclesEnd) {
  for (const int32_t edits : {0, 3, 16}) {
    const int32_t n = 8;
    const auto algorithm = rule_of("joint_threshold", {{"max_post_edit_steps", edits}});
    FakeBlock block(std::vector<float>(n, 0.1F));
    int32_t passes = 0;
    for (bool finished = false; !finished; ++passes) {
      ASSERT_LE(passes, n + edits);
      for (int32_t& candidate : block.candidates) candidate ^= 1;  // each pass wants another token everywhere
      finished = block.step(*algorithm).finished;
    }
    EXPECT_EQ(passes, n + edits + 1);
    EXPECT_EQ(block.view.masked, 0U);
  }
}

TEST(Hierarchy, OneOfEachRunThatIsGoodEnough) {
  const auto algorithm = rule_of("hierarchy", {{"threshold", 0.9}, {"low_threshold", 0.4}});
  FakeBlock block({0.5F, 0.45F, 0.99F, 0.4F, 0.3F, 0.99F, 0.7F, 0.95F});
  block.leave_open(at({0, 1, 3, 4, 6, 7}));
  EXPECT_EQ(block.decide(*algorithm).unmask, at({0, 7}));  // 0.4 is not above 0.4
  FakeBlock poor({0.1F, 0.2F, 0.2F});
  EXPECT_EQ(poor.decide(*algorithm).unmask, at({1}));
  FakeBlock wide(std::vector<float>(kMaxWidth, 0.5F));
  EXPECT_EQ(wide.decide(*algorithm).unmask, at({0}));
}

TEST(Klass, WantsTheSameDistributionTwice) {
  const auto algorithm = rule_of("klass", {{"threshold", 0.9}, {"kl_threshold", 0.01}});
  FakeBlock block({0.95F, 0.95F, 0.95F, 0.8F});
  EXPECT_EQ(block.decide(*algorithm).unmask, at({0}));  // nothing is known to be stable yet
  block.statistics[1].best = 5;                         // another token leads
  block.statistics[2].p_best = 0.99F;                   // d(0.99 || 0.95) = 0.025
  EXPECT_EQ(block.decide(*algorithm).unmask, at({0}));
  EXPECT_EQ(block.decide(*algorithm).unmask, at({0, 1, 2}));  // the fourth is stable and not confident
}

TEST(Klass, HistoryIsInARow) {
  const auto algorithm = rule_of("klass", {{"history", 2}});
  FakeBlock block({0.95F, 0.96F});
  EXPECT_EQ(block.decide(*algorithm).unmask, at({1}));
  EXPECT_EQ(block.decide(*algorithm).unmask, at({1}));
  EXPECT_EQ(block.decide(*algorithm).unmask, at({0, 1}));
}

TEST(Credit, GrowsWhileOneTokenLeads) {
  const auto algorithm = rule_of("credit");
  // C = 0.75^0.2 = 0.9441 and odds 3 (1 + C)^0.7: 0.8269; then C = 0.8 C + 0.9441: 0.8574, 0.8738, 0.8840, 0.8908,
  // 0.8956, 0.8990, 0.9016.
  FakeBlock block({0.75F, 0.75F});
  int32_t passes = 1;
  while (block.decide(*algorithm).unmask != at({0, 1})) ASSERT_LT(++passes, 20);
  EXPECT_EQ(passes, 8);
  block.statistics[1].best = block.candidates[1] = 5;
  EXPECT_EQ(block.decide(*algorithm).unmask, at({0}));
}

TEST(S2d2, VerifiesTheFirstRunOfHoles) {
  FakeBlock block({0.2F, 0.2F, 0.95F, 0.2F, 0.95F});
  const auto algorithm = rule_of("s2d2");
  EXPECT_TRUE(algorithm->verifies());
  Decision decision = block.decide(*algorithm);
  EXPECT_EQ(decision.verify, at({0, 1, 2, 3, 4}));
  EXPECT_EQ(decision.unmask, 0U);
  block.leave_open(at({1, 2, 4}));
  EXPECT_EQ(block.decide(*algorithm).verify, at({1, 2}));
  block.leave_open(at({1, 3, 4}));  // one masked position is not worth a pass: as the threshold says
  decision = block.decide(*algorithm);
  EXPECT_EQ(decision.verify, 0U);
  EXPECT_EQ(decision.unmask, at({4}));
  block.leave_open(at({0, 3}));
  EXPECT_EQ(block.decide(*algorithm).unmask, at({0}));
  EXPECT_EQ(block.decide(*rule_of("s2d2", {{"min_span", 1}})).verify, at({0}));
  FakeBlock longest(std::vector<float>(64, 0.5F));
  EXPECT_EQ(longest.decide(*algorithm).verify, ~Positions{0});
}

// Of 1000 tokens an entropy of ln(1000) ln(2) is a chance of one half: 1/2 + 1/4 + 1/8 drafts are expected.
TEST(S2d2, VerifiesWhatIsWorthIt) {
  const auto decided = [](std::map<std::string, double> values, int32_t passes = 1) {
    FakeBlock block({0.95F, 0.2F, 0.2F});
    for (RowStatistics& row : block.statistics) row.entropy = static_cast<float>(std::log(1000.0) * std::log(2.0));
    const auto algorithm = rule_of("s2d2", std::move(values));
    Decision decision = block.decide(*algorithm);
    for (; passes > 1; --passes) {  // certain of all at first
      for (RowStatistics& row : block.statistics) row.entropy = 0;
      EXPECT_NE(block.decide(*algorithm).verify, 0U);
      for (RowStatistics& row : block.statistics) row.entropy = static_cast<float>(std::log(1000.0) * std::log(2.0));
      decision = block.decide(*algorithm);
    }
    return decision;
  };
  EXPECT_EQ(decided({{"cut", 0.87}}).verify, at({0, 1, 2}));
  EXPECT_EQ(decided({{"cut", 0.88}}).unmask, at({0}));
  EXPECT_EQ(decided({{"cost", 0.87}}).verify, at({0, 1, 2}));  // the threshold would unmask one
  EXPECT_EQ(decided({{"cost", 0.88}}).unmask, at({0}));
  EXPECT_EQ(decided({{"cut", 1}, {"hysteresis", 0.12}}, 2).unmask, at({0}));
  EXPECT_EQ(decided({{"cut", 1}, {"hysteresis", 0.13}}, 2).verify, at({0, 1, 2}));
}

TEST(Verification, UnmasksUpToTheFirstThatDiffers) {
  const auto verified = [](std::vector<int32_t> now, int32_t most = 64) {
    Block block;
    block.open(8, 8, 3);
    block.candidates = {10, 11, 12, 13, 14};
    block.draft(at({1, 2, 3}));
    std::copy(now.begin(), now.end(), block.candidates.begin());
    const Positions unmasked = block.verified(most);
    EXPECT_EQ(block.verify, 0U);
    return unmasked;
  };
  EXPECT_EQ(verified({10, 11, 12, 13}), at({1, 2, 3}));
  EXPECT_EQ(verified({99, 11, 99, 13}), at({1, 2}));
  EXPECT_EQ(verified({10, 99, 12, 13}), at({1}));
  EXPECT_EQ(verified({10, 11, 12, 13}, 2), at({1, 2}));
}

// Drafts before a position count for its penalties as tokens do, and only there.
TEST(Verification, PenaltiesSeeTheDraftsBefore) {
  Block block;
  block.open(8, 4, 3);
  block.candidates = {1, 1, 1, 1};
  block.draft(at({0, 1, 2}));
  Slot slot;
  slot.params.presence_penalty = 2;
  slot.counts.reserve(4);
  for (int32_t i = 0; i < 2; ++i) {
    fill_candidate(block, i, slot, {4, 3, 0}, {1, 2.5F, 0, 9}, std::span(block.drafts).first(static_cast<size_t>(i)));
  }
  EXPECT_EQ(block.candidates[0], 1);
  EXPECT_EQ(block.candidates[1], 0);  // 1 has been said
  EXPECT_EQ(slot.counts.in_answer(1), 0);
  EXPECT_EQ(block.verified(64), at({0, 1}));
}

// The row of a position of a block of 2 after token 1; the mask is id 3.
Block candidate_of(std::vector<float> logits, const CandidateOptions& options, int32_t i = 0) {
  Block block;
  block.open(2, 2, 3);
  block.before[1] = 1;
  Slot slot;
  fill_candidate(block, i, slot, options, std::move(logits));
  return block;
}

TEST(Candidates, TheMaskIsNoCandidateAndHasNoMass) {
  const Block block = candidate_of({1, 1, 0, 50}, {4, 3, 0});
  EXPECT_EQ(block.candidates[0], 0);  // the lowest of two
  const double p = std::exp(1.0) / (2 * std::exp(1.0) + 1);
  EXPECT_NEAR(block.confidence[0], p, 1e-6);
  EXPECT_NEAR(block.statistics[0].entropy, -2 * p * std::log(p) - (1 - 2 * p) * std::log(1 - 2 * p), 1e-6);
}

TEST(Candidates, RepeatingTheTokenBeforeCosts) {
  EXPECT_EQ(candidate_of({0, 1, 0.5F, 9}, {4, 3, 0}).candidates[0], 1);
  EXPECT_EQ(candidate_of({0, 1, 0.5F, 9}, {4, 3, 0.75F}).candidates[0], 2);
  EXPECT_EQ(candidate_of({0, 1, 0.5F, 9}, {4, 3, 0.75F}, 1).candidates[1], 1);  // a masked position stands before it
}

// Whatever a model says, a block is filled or ends within its positions and edits.
TEST(AllAlgorithms, UnmaskSomethingInEachPassOrEnd) {
  std::mt19937 random(3);
  std::uniform_real_distribution<float> uniform;
  for (const AlgorithmDescription& description : algorithm_descriptions()) {
    for (int round = 0; round < 200; ++round) {
      const int32_t n = 1 + static_cast<int32_t>(random() % kMaxWidth);
      const auto algorithm = make_algorithm({description.name, {}}, n);
      FakeBlock block(std::vector<float>(n, 0));
      bool finished = false;
      for (int32_t pass = 0; !finished; ++pass) {
        ASSERT_LT(pass, n + 17) << description.name;
        for (int32_t i = 0; i < n; ++i) {
          block.candidates[i] = static_cast<int32_t>(random() % 3);
          block.statistics[i] = {block.candidates[i], 0, uniform(random), 0, 0, 8 * uniform(random)};
          block.confidence[i] = round == 0 ? NAN : block.statistics[i].p_best;
        }
        const Positions open = block.view.open;
        const Decision decision = block.step(*algorithm);
        EXPECT_EQ(decision.unmask & ~open, 0U) << description.name;
        EXPECT_TRUE(decision.unmask != 0 || open == 0) << description.name;
        EXPECT_TRUE(algorithm->verifies() || decision.verify == 0);
        EXPECT_TRUE(algorithm->edits() || decision.edit == 0);
        finished = block.view.masked == 0 && (!algorithm->edits() || decision.finished);
      }
    }
  }
}

TEST(Algorithms, KnowOtherSpellings) {
  EXPECT_STREQ(find_algorithm("").name, "low_confidence");
  EXPECT_STREQ(find_algorithm("LowConfidence").name, "low_confidence");
  EXPECT_STREQ(find_algorithm("JointThreshold").name, "joint_threshold");
  EXPECT_STREQ(find_algorithm("EBSampling").name, "entropy_bound");
  EXPECT_STREQ(find_algorithm("EntropyBounded").name, "entropy_bounded");  // SDAR's, another algorithm
  EXPECT_STREQ(find_algorithm("low_confidence_static").name, "static");
  EXPECT_STREQ(find_algorithm("KLASS").name, "klass");
  EXPECT_STREQ(find_algorithm("S2D2").name, "s2d2");
  EXPECT_EQ(describe_algorithm({"JointThreshold", {{"threshold", 0.7}}}),
            "joint_threshold (threshold 0.7, edit_threshold 0, max_post_edit_steps 16, penalty_lambda 0)");
}

TEST(Algorithms, SayWhatIsWrong) {
  const auto problem = [](const AlgorithmSpec& spec) -> std::string {
    try {
      make_algorithm(spec, 8);
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  };
  EXPECT_THAT(problem({"best", {}}),
              HasSubstr("unknown denoising algorithm 'best'; expected one of low_confidence, st"));
  EXPECT_THAT(problem({"factor", {{"threshold", 1}}}),
              HasSubstr("factor has no parameter 'threshold'; expected one of"));
  EXPECT_THAT(problem({"", {{"threshold", 1.5}}}), HasSubstr("threshold is 1.5; expected 0 to 1"));
  EXPECT_THAT(problem({"", {{"threshold", NAN}}}), HasSubstr("threshold is nan; expected 0 to 1"));
  EXPECT_THAT(problem({"static", {{"steps", 2.5}}}), HasSubstr("steps is 2.5; expected a whole number from 0 to 64"));
}

}  // namespace
}  // namespace ashlar::testing
