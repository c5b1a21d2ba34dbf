// SPDX-License-Identifier: Apache-2.0
// DFlash over models with recurrent layers against Hugging Face transformers: its loop of assisted generation with its
// own DFlash candidate generator (tools/goldens/make_assisted_goldens.py) gives the same tokens, in steps of as many.

#include <gtest/gtest.h>

#include "equivalence/configurations.h"
#include "golden/golden_data.h"
#include "golden/seeded_checkpoint.h"

namespace ashlar::testing {
namespace {

constexpr int32_t kAssistedLongest = 256;

/// Only `allowed` tokens, which is what the goldens' runs may say.
SamplingParams only(const std::vector<int32_t>& allowed, int32_t vocab) {
  SamplingParams params;
  for (int32_t id = 0; id < vocab; ++id) {
    if (std::ranges::find(allowed, id) == allowed.end()) params.logit_bias.push_back({id, -1000.0F});
  }
  return params;
}

// On other devices near ties of drafts may fall otherwise, and change what a step accepts.
TEST(AssistedGeneration, GivesTransformersTokensInItsSteps) {
  const auto ops = make_device("ref", {.threads = 2, .isa = {}});
  const Json golden = read_json_file(data_folder() / "assisted" / "runs.json");
  const auto allowed = golden["allowed"].get<std::vector<int32_t>>();
  const auto prompts = golden["prompts"].get<std::vector<std::vector<int32_t>>>();
  ASSERT_EQ(prompts.size(), 20U);
  ASSERT_EQ(golden["runs"].size(), 3U);
  for (const Json& run : golden["runs"]) {
    const SeededCheckpoint target(data_folder() / run["target"].get<std::string>());
    const SeededCheckpoint drafter(data_folder() / run["drafter"].get<std::string>());
    const auto model = Model::load(*ops, target.folder(), kAssistedLongest);
    ASSERT_TRUE(model->is_recurrent());
    for (const auto& [depth, chunk] : {std::pair{1, 4096}, {2, 5}}) {
      Configuration asked = configuration("dflash", 1, depth, chunk, false);
      asked.decoder.drafter = drafter.folder();
      asked.decoder.dflash = {.width = run["block"].get<int32_t>(), .branches = 0};
      asked.decoder.ngram = NgramUse::kNever;
      const auto engine = open_engine(*ops, *model, asked, kAssistedLongest);
      for (size_t i = 0; i < prompts.size(); ++i) {
        SCOPED_TRACE(run["target"].get<std::string>() + ", " + run["drafter"].get<std::string>() + ", prompt " +
                     std::to_string(i) + ", chunks of " + std::to_string(chunk));
        const auto expected = run["outputs"][i].get<std::string>();
        const auto lengths = run["steps"][i].get<std::string>();
        Request request;
        request.prompt = prompts[i];
        request.max_tokens = static_cast<int32_t>(expected.size()) + 16;  // steps near the end have fewer rows
        request.sampling = only(allowed, model->config().vocab);
        auto [tokens, steps] = steps_of(*engine, std::move(request));
        ASSERT_GE(tokens.size(), expected.size());
        std::string found, found_lengths;
        for (size_t t = 0; t < expected.size(); ++t) {
          found += static_cast<char>('0' + (std::ranges::find(allowed, tokens[t]) - allowed.begin()));
        }
        EXPECT_EQ(found, expected);
        // The last of transformers' steps is cut where its answer ends.
        ASSERT_GE(steps.size(), lengths.size());
        for (size_t s = 0; s + 1 < lengths.size(); ++s) found_lengths += static_cast<char>('0' + steps[s]);
        EXPECT_EQ(found_lengths, lengths.substr(0, lengths.size() - 1));
      }
    }
  }
}

}  // namespace
}  // namespace ashlar::testing
