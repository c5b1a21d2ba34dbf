// SPDX-License-Identifier: Apache-2.0
// The promise of the engine on a GPU: a request's tokens depend on weights, prompt, sampling parameters and seed alone.

#include <cstdlib>

#include "cuda/on_gpu.h"
#include "equivalence/block_suite.h"
#include "equivalence/head_drafter.h"
#include "equivalence/many_suite.h"

namespace ashlar::testing {
namespace {

class IdentityOnGpu : public OnGpu {};

// Every configuration meets every sampling in the long tier, otherwise one of the four.
TEST_F(IdentityOnGpu, EveryConfigurationGivesTheSameTokens) {
  suite::EquivalenceSuite suite(*ops_);
  const bool all = std::getenv("ASHLAR_LONG_TESTS") != nullptr;
  suite.run(*ops_, "cuda", [all](size_t configuration, size_t sampling) {
    const size_t turn = static_cast<size_t>(__builtin_popcountll(configuration)) + configuration / 8;
    return all || sampling == turn % 4;
  });
  suite.print();
  EXPECT_GE(suite.comparisons, 2000);
  EXPECT_GT(suite.preemptions, 18U);
  EXPECT_GT(suite.accepted, suite.ngram_accepted);
  EXPECT_GT(suite.ngram_accepted, 0U);
}

// 128 blocks of 16 are 2,048 rows, the longest run of those that want the highest logit alone 1,728: more than go at
// once.
TEST_F(IdentityOnGpu, ManySequencesAtOnceGetTheSameTokens) { suite::expect_same_of_many_at_once(*ops_, 128); }

// With weights of few bits, too: a quarter of the configurations each.
TEST_F(IdentityOnGpu, WeightsOfFewBitsGiveTheSameTokensEverywhere) {
  for (const KeptWeights weights : {KeptWeights::kInt8, KeptWeights::kInt4, KeptWeights::kFp8}) {
    make(weights);
    suite::EquivalenceSuite suite(*ops_);
    const size_t turn = weights == KeptWeights::kInt8 ? 1 : weights == KeptWeights::kInt4 ? 2 : 3;
    suite.run(*ops_, "few bits", [turn](size_t configuration, size_t sampling) {
      return configuration % 4 == turn &&
             sampling == (static_cast<size_t>(__builtin_popcountll(configuration)) + configuration / 8) % 4;
    });
    suite.print();
    EXPECT_GE(suite.comparisons, 200);
    EXPECT_GT(suite.accepted, 0U);
  }
}

// With keys and values in codes, too: a quarter of the configurations, and blocks.
TEST_F(IdentityOnGpu, CodesOfKeysAndValuesGiveTheSameTokensEverywhere) {
  for (const KvDType dtype : {KvDType::kInt8, KvDType::kTq4}) {
    make(KeptWeights::kAuto, dtype);
    suite::EquivalenceSuite suite(*ops_);
    const size_t turn = dtype == KvDType::kInt8 ? 1 : 2;
    suite.run(*ops_, std::string(name_of(dtype)), [turn](size_t configuration, size_t sampling) {
      return configuration % 4 == turn &&
             sampling == (static_cast<size_t>(__builtin_popcountll(configuration)) + configuration / 8) % 4;
    });
    suite.print();
    EXPECT_GE(suite.comparisons, 200);
    EXPECT_GT(suite.accepted, 0U);
    blocks::expect_same_by_every_configuration(*ops_, *ops_);
  }
}

// Of drafters whose drafts know the one before them, each way meets one of the four samplings.
class HeadsOnGpu : public OnGpu, public ::testing::WithParamInterface<std::string> {};

TEST_P(HeadsOnGpu, GiveTheSameTokensByEveryConfiguration) {
  const HeadDrafter drafter(GetParam());
  suite::EquivalenceSuite suite(*ops_);
  suite.run(
      *ops_, GetParam(),
      [](size_t configuration, size_t sampling) {
        return sampling == (static_cast<size_t>(__builtin_popcountll(configuration)) + configuration / 8) % 4;
      },
      suite::in_every_way(drafter.methods()));
  suite.print();
  EXPECT_GE(suite.comparisons, 400);
  EXPECT_EQ(suite.mismatches, 0);
  EXPECT_GT(suite.accepted, suite.ngram_accepted);
}

INSTANTIATE_TEST_SUITE_P(All, HeadsOnGpu, ::testing::Values("dflash2", "dspark", "lilicorr", "domino", "xpress"),
                         [](const auto& test) { return test.param; });

TEST_F(IdentityOnGpu, EveryConfigurationOfBlocksGivesTheSameTokens) {
  blocks::expect_same_by_every_configuration(*ops_, *ops_);
}

}  // namespace
}  // namespace ashlar::testing
