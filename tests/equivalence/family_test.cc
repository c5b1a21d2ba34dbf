// SPDX-License-Identifier: Apache-2.0
// Families whose layers compute something of their own (other norms, ropes, windows, multipliers) keep the promise as
// well: chunks, drafts, depth, prefix hits and preemptions change no token.

#include <gtest/gtest.h>

#include <random>

#include "equivalence/configurations.h"
#include "equivalence/warm_rounds.h"
#include "golden/golden_data.h"
#include "golden/seeded_checkpoint.h"

namespace ashlar::testing {
namespace {

constexpr int32_t kFamilyLongest = 160;
constexpr int32_t kAnswer = 24;

// Prompts of all lengths around pages, chunks and windows.
std::vector<Request> family_requests(int32_t vocab, int32_t limit) {
  const std::vector<SamplingParams> samplings = {{}, cool_sampling(), hot_sampling()};
  std::vector<Request> all;
  for (const int32_t length : {1, 15, 16, 17, 33, 60, 100}) {
    if (length + kAnswer > limit) continue;
    std::mt19937 random(static_cast<uint32_t>(length));
    Request made;
    for (int32_t i = 0; i < length; ++i) made.prompt.push_back(4 + static_cast<int32_t>(random() % (vocab - 4)));
    made.max_tokens = kAnswer;
    made.sampling = samplings[all.size() % samplings.size()];
    all.push_back(std::move(made));
  }
  return all;
}

struct FamilyWhere {
  const char* device;
  const char* family;
};

std::vector<FamilyWhere> everywhere() {
  std::vector<FamilyWhere> all;
  for (const char* family :
       {"smollm3", "olmo2", "granite", "glm4", "phi3", "gpt_oss", "gpt_oss_mxfp4", "gemma4", "gemma4_text", "lfm2_moe",
        "glm4_moe", "gemma4_moe", "olmo3", "ministral3", "gemma3_text", "qwen3_next"}) {
    for (const char* device : {"ref", "cpu"}) all.push_back({device, family});
  }
  // Nothing of theirs is their own alone.
  for (const char* family : {"gemma3", "mistral", "llama", "qwen2", "qwen3", "qwen3_moe_sliding"}) {
    all.push_back({"cpu", family});
  }
  return all;
}

class FamilyEquivalence : public ::testing::TestWithParam<FamilyWhere> {};

TEST_P(FamilyEquivalence, EveryConfigurationGivesTheTokensOfPlainDecodingAlone) {
  const SeededCheckpoint checkpoint(data_folder() / "families" / GetParam().family);
  const auto ops = make_device(GetParam().device, {.threads = 2, .isa = {}});
  const auto model = Model::load(*ops, checkpoint.folder(), kFamilyLongest);
  const int32_t longest = model->max_positions() / kPageTokens * kPageTokens;
  const auto all = [&] { return family_requests(model->config().vocab, longest); };
  std::vector<std::vector<int32_t>> expected;
  for (Request& alone : all()) {
    const auto engine = open_engine(*ops, *model, {}, longest);
    expected.push_back(run_together(*engine, {std::move(alone)})[0].tokens);
  }
  WarmRounds rounds;
  for (const int32_t width : {1, 3, 16}) {
    for (const int32_t depth : {1, 2}) {
      for (const int32_t chunk : {4096, 13}) {
        for (const bool tight : {false, true}) {
          SCOPED_TRACE("width " + std::to_string(width) + ", depth " + std::to_string(depth) + ", chunks of " +
                       std::to_string(chunk) + (tight ? ", tight" : ""));
          const Configuration asked = configuration(width > 1 ? "ngram" : "", width, depth, chunk, tight);
          const auto engine = open_engine(*ops, *model, asked, longest);
          rounds.run(*engine, all(), expected, tight);
        }
      }
    }
  }
  rounds.expect_all_kinds();
}

INSTANTIATE_TEST_SUITE_P(Devices, FamilyEquivalence, ::testing::ValuesIn(everywhere()),
                         [](const auto& info) { return std::string(info.param.device) + "_" + info.param.family; });

}  // namespace
}  // namespace ashlar::testing
