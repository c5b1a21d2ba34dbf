// SPDX-License-Identifier: Apache-2.0
// A prefix hit restores the drafter with the target, also where the pages were filled by a request that never drafted:
// drafts are then accepted exactly as after a cold prefill. Invariant: published-means-final.

#include <gtest/gtest.h>

#include "equivalence/configurations.h"
#include "golden/golden_data.h"

namespace ashlar::testing {
namespace {

// Parameter: the draft window. With one, the pages that drafts look at first still lie in the drafter's frames.
class PrefixHit : public ::testing::TestWithParam<int32_t> {};
INSTANTIATE_TEST_SUITE_P(Windows, PrefixHit, ::testing::Values(0, 64));

TEST_P(PrefixHit, DraftsAreAcceptedAsAfterAColdPrefill) {
  const auto ops = make_device("cpu", {.threads = 1, .isa = {}});
  const auto model = Model::load(*ops, models_folder() / "pebble-11m", 512);
  Configuration configuration;
  configuration.decoder = {
      "dflash", models_folder() / "pebble-11m-dflash", {16, GetParam(), 1, DenoiseSchedule::kCosine}};
  const auto engine = open_engine(*ops, *model, configuration, 512);
  const Json json = read_json_file(data_folder() / "pebble-11m" / "goldens.json");
  int64_t accepted = 0;
  for (int i = 0; i < 8; ++i) {
    Request plain;
    plain.prompt = json["cases"][i]["prompt_ids"].get<std::vector<int32_t>>();
    plain.max_tokens = 100;
    plain.width = 1;
    engine->drop_prefix_cache();
    const Answer first = run_together(*engine, {plain})[0];
    EXPECT_EQ(first.end.stats.drafted, 0);

    Request next;
    next.prompt = plain.prompt;
    next.prompt.insert(next.prompt.end(), first.tokens.begin(), first.tokens.end());
    next.max_tokens = 60;
    const Answer warm = run_together(*engine, {next})[0];
    engine->drop_prefix_cache();
    const Answer cold = run_together(*engine, {next})[0];
    EXPECT_GE(warm.end.stats.cached_tokens, static_cast<int32_t>(next.prompt.size()) - 2 * kPageTokens);
    EXPECT_EQ(cold.end.stats.cached_tokens, 0);
    EXPECT_EQ(warm.tokens, cold.tokens);
    EXPECT_EQ(warm.end.stats.accepted_at, cold.end.stats.accepted_at);
    EXPECT_EQ(warm.end.stats.verify_steps, cold.end.stats.verify_steps);
    accepted += warm.end.stats.accepted;
  }
  EXPECT_GT(accepted, 100);
}

}  // namespace
}  // namespace ashlar::testing
