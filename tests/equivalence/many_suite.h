// SPDX-License-Identifier: Apache-2.0
#pragma once
// Far more sequences in a step than others of these tests have: rows of which only the highest logit is asked for are
// chosen together, beyond those that logits are kept for, next to rows whose logits are looked at.
// Invariant: same-tokens-by-every-configuration.

#include <algorithm>

#include "equivalence/suite.h"

namespace ashlar::testing::suite {

/// The answers of plain decoding, eight at a time, against those of all sequences at once: plain, in blocks of 16 with
/// a branch or as a chain, and as the policy chooses.
inline void expect_same_of_many_at_once(Ops& ops, int32_t sequences) {
  const auto model = Model::load(ops, models_folder() / "pebble-11m", kLongest);
  std::vector<Request> all;
  for (int32_t s = 0; s < sequences; ++s) {
    // Runs of greedy ones of different lengths with a sampled one or two between them, then one of all others.
    const bool sampled = s < 24 && (s % 11 == 5 || s % 13 == 6);
    Request request = requests(sampled ? warm_sampling() : SamplingParams{}, model->config().stop_ids)[s % kPrompts];
    request.sampling.seed += static_cast<uint64_t>(s);
    all.push_back(std::move(request));
  }
  std::vector<Answer> expected;
  {
    const auto engine = open_engine(ops, *model, Configuration{}, kLongest);
    for (size_t first = 0; first < all.size(); first += 8) {
      const size_t end = std::min(first + 8, all.size());
      for (Answer& answer : run_together(*engine, {all.begin() + first, all.begin() + end})) {
        expected.push_back(std::move(answer));
      }
    }
  }
  const auto drafter = models_folder() / "pebble-11m-dflash";
  for (const int32_t branches : {-1, 0, 1, DflashOptions::kDefaultBranches}) {
    DecoderSpec spec;
    if (branches >= 0) spec = {"dflash", drafter, {16, 0, 1, DenoiseSchedule::kCosine, branches}};
    if (branches == DflashOptions::kDefaultBranches) spec.dflash.width = 0;
    EngineOptions options;
    options.max_sequences = sequences;
    options.kv_pages = sequences * (kLongest / kPageTokens + 2);
    Engine engine(ops, make_decoder(*model, spec), options);
    const std::vector<Answer> found = run_together(engine, all);
    int32_t mismatches = 0;
    for (size_t s = 0; s < all.size(); ++s) mismatches += expected[s].tokens == found[s].tokens ? 0 : 1;
    EXPECT_EQ(mismatches, 0) << "of " << sequences << " sequences, branches " << branches;
    if (branches == 0) {
      EXPECT_GT(engine.counters().accepted, 0U);
    }
  }
}

}  // namespace ashlar::testing::suite
