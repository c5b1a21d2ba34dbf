// SPDX-License-Identifier: Apache-2.0
// The promise of the engine: a request's tokens depend on weights, prompt, sampling parameters and seed alone.

#include "equivalence/many_suite.h"

namespace ashlar::testing {
namespace {

// In the long tier every configuration meets every sampling, with one thread and with two.
TEST(Equivalence, EveryConfigurationGivesTheSameTokens) {
  const auto one = make_device("cpu", {.threads = 1, .isa = {}});
  suite::EquivalenceSuite suite(*one);
  for (const int32_t threads : {1, 2}) {
    const auto ops = make_device("cpu", {.threads = threads, .isa = {}});
    suite.run(*ops, std::to_string(threads) + " threads", [threads](size_t configuration, size_t sampling) {
      return is_long() || suite::meets(configuration, threads, sampling);
    });
  }
  suite.print();
  EXPECT_GE(suite.comparisons, 2000);
  // Not on every configuration: the answers of one sampling may happen to fit.
  EXPECT_GT(suite.preemptions, 36U);
  EXPECT_GT(suite.accepted, suite.ngram_accepted);
  EXPECT_GT(suite.ngram_accepted, 0U);
}

// 40 blocks of 16 are 640 rows, the longest run of those that want the highest logit alone 320.
TEST(Equivalence, ManySequencesAtOnceGetTheSameTokens) {
  const auto ops = make_device("cpu", {.threads = 2, .isa = {}});
  suite::expect_same_of_many_at_once(*ops, 40);
}

// With products of few bits, too: every method once, each in another way, by another sampling and with other weights.
// A quarter of all configurations with each in the long tier.
TEST(Equivalence, WeightsOfFewBitsGiveTheSameTokensEverywhere) {
  for (const KeptWeights weights : {KeptWeights::kInt8, KeptWeights::kInt4, KeptWeights::kFp8}) {
    const auto one = make_device("cpu", {.threads = 1, .isa = {}, .weights = weights});
    suite::EquivalenceSuite suite(*one);
    const auto ops = make_device("cpu", {.threads = 2, .isa = {}, .weights = weights});
    const size_t turn = weights == KeptWeights::kInt8 ? 1 : weights == KeptWeights::kInt4 ? 2 : 3;
    suite.run(*ops, "few bits", [turn](size_t configuration, size_t sampling) {
      if (is_long()) return configuration % 4 == turn;
      const size_t method = configuration / 8;
      return method % 3 == turn - 1 && suite::in_one_way(configuration, turn) && sampling == (method + turn) % 4;
    });
    suite.print();
    EXPECT_GE(suite.comparisons, is_long() ? 200 : 80);
    EXPECT_GT(suite.accepted, 0U);
  }
}

}  // namespace
}  // namespace ashlar::testing
