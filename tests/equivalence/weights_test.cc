// SPDX-License-Identifier: Apache-2.0
// Weights of fewer bits: what they cost in quality where they are the target's, and that a drafter's change no token.
// Invariant: same-tokens-by-every-configuration.

#include "equivalence/legal_text.h"
#include "equivalence/suite.h"
#include "model/drafters/dflash.h"

namespace ashlar::testing {
namespace {

std::unique_ptr<Ops> device(KeptWeights weights, KeptWeights drafter_weights = KeptWeights::kAuto) {
  return make_device("cpu", {.threads = 2, .isa = {}, .weights = weights, .drafter_weights = drafter_weights});
}

// docs/quantised.md has the figures.
TEST(RoundedWeights, KeepThePerplexity) {
  const double exact = perplexity_of_legal_text(*device(KeptWeights::kExact));
  const double int8 = perplexity_of_legal_text(*device(KeptWeights::kInt8));
  const double int4 = perplexity_of_legal_text(*device(KeptWeights::kInt4));
  std::printf("perplexity: exact %.4f, int8 %.4f (%+.2f %%), int4 %.4f (%+.2f %%)\n", exact, int8,
              100 * (int8 / exact - 1), int4, 100 * (int4 / exact - 1));
  EXPECT_NEAR(int8 / exact, 1, 0.005);
  EXPECT_NEAR(int4 / exact, 1, 0.04);
  EXPECT_NE(int8, exact);
  EXPECT_NE(int4, int8);
}

// The drafter's with its copy of the head; groups of 32 have scales of 16 bits and, of 4 bits, lowest values, groups of
// E4M3 a scale of 32 bits for 128 numbers.
TEST(DrafterWeights, AreKeptAsAskedAndChangeNoToken) {
  const auto folder = models_folder() / "pebble-11m-dflash";
  std::vector<Answer> expected;
  double exact_bytes = 0;
  for (const auto& [kept, bits] : {std::pair{KeptWeights::kExact, 16.0},
                                   {KeptWeights::kInt8, 8.5},
                                   {KeptWeights::kFp8, 8.25},
                                   {KeptWeights::kInt4, 5.0}}) {
    SCOPED_TRACE(static_cast<int>(kept));
    const auto ops = device(KeptWeights::kAuto, kept);
    const auto model = Model::load(*ops, models_folder() / "pebble-11m", suite::kLongest);
    const auto requests = suite::requests(warm_sampling(), model->config().stop_ids);
    if (expected.empty()) expected = run_together(*open_engine(*ops, *model, {}, suite::kLongest), requests);
    const auto bytes = static_cast<double>(DflashDrafter::load(*model, folder)->bytes_read());
    if (exact_bytes == 0) exact_bytes = bytes;
    EXPECT_NEAR(bytes / exact_bytes, bits / 16, 0.01);
    Configuration drafted;
    drafted.decoder = {"dflash", folder, {8, 0, 1, DenoiseSchedule::kCosine}};
    const auto engine = open_engine(*ops, *model, drafted, suite::kLongest);
    const auto answers = run_together(*engine, requests);
    for (size_t i = 0; i < answers.size(); ++i) EXPECT_EQ(answers[i].tokens, expected[i].tokens) << i;
    EXPECT_GT(engine->counters().accepted, 40U);
  }
}

}  // namespace
}  // namespace ashlar::testing
