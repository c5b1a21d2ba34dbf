// SPDX-License-Identifier: Apache-2.0
// The promise of the engine: a request's tokens depend on weights, prompt, sampling parameters and seed alone.

#include "equivalence/suite.h"

#include <cstdlib>

namespace ashlar::testing {
namespace {

// Every configuration meets every sampling in the long tier. Otherwise each meets one of the four with one thread and
// another with two, and so that all four are met by every decoder, depth, chunking and memory.
bool in_this_tier(size_t configuration, int32_t threads, size_t sampling) {
  if (std::getenv("ASHLAR_LONG_TESTS") != nullptr) return true;
  const size_t turn =
      static_cast<size_t>(__builtin_popcountll(configuration)) + configuration / 8 + 2 * static_cast<size_t>(threads);
  return sampling == turn % 4;
}

TEST(Equivalence, EveryConfigurationGivesTheSameTokens) {
  const auto one = make_device("cpu", {.threads = 1, .isa = {}});
  suite::EquivalenceSuite suite(*one);
  for (const int32_t threads : {1, 2}) {
    const auto ops = make_device("cpu", {.threads = threads, .isa = {}});
    suite.run(*ops, std::to_string(threads) + " threads", [threads](size_t configuration, size_t sampling) {
      return in_this_tier(configuration, threads, sampling);
    });
  }
  suite.print();
  EXPECT_GE(suite.comparisons, 2000);
  // Not on every configuration: the answers of one sampling may happen to fit.
  EXPECT_GT(suite.preemptions, 36U);
  EXPECT_GT(suite.accepted, suite.ngram_accepted);
  EXPECT_GT(suite.ngram_accepted, 0U);
}

// With products of few bits, too: a quarter of the configurations each.
TEST(Equivalence, WeightsOfFewBitsGiveTheSameTokensEverywhere) {
  for (const KeptWeights weights : {KeptWeights::kInt8, KeptWeights::kInt4, KeptWeights::kFp8}) {
    const auto one = make_device("cpu", {.threads = 1, .isa = {}, .weights = weights});
    suite::EquivalenceSuite suite(*one);
    const auto ops = make_device("cpu", {.threads = 2, .isa = {}, .weights = weights});
    const size_t turn = weights == KeptWeights::kInt8 ? 1 : weights == KeptWeights::kInt4 ? 2 : 3;
    suite.run(*ops, "few bits", [turn](size_t configuration, size_t sampling) {
      return configuration % 4 == turn && in_this_tier(configuration, 2, sampling);
    });
    suite.print();
    EXPECT_GE(suite.comparisons, 200);
    EXPECT_GT(suite.accepted, 0U);
  }
}

}  // namespace
}  // namespace ashlar::testing
