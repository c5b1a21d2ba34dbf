// SPDX-License-Identifier: Apache-2.0
// Answers of block-diffusion models against those of the decoding loops that their authors published, token for token
// and pass for pass (tools/goldens/make_block_loop_goldens.py says which, and on what).

#include <gtest/gtest.h>

#include <set>
#include <utility>

#include "device/device.h"
#include "golden/block/block_engine.h"
#include "golden/golden_data.h"
#include "golden/seeded_checkpoint.h"

namespace ashlar::testing {
namespace {

class PublishedLoop : public ::testing::TestWithParam<std::string> {};

TEST_P(PublishedLoop, GivesTheSameTokensInTheSamePasses) {
  const SeededCheckpoint checkpoint(data_folder() / "blocks" / GetParam());
  const auto ops = make_device("ref", {});
  const auto model = Model::load(*ops, checkpoint.folder(), 96);
  const Json cases = read_json_file(data_folder() / "blocks" / "loops.json");
  const bool whole = model->config().diffusion->block_size == 0;
  size_t compared = 0, unmasking_passes = 0;
  for (const Json& item : cases) {
    if (item["folder"] != GetParam()) continue;
    SCOPED_TRACE(item.dump());
    const AlgorithmSpec algorithm = {item["rule"].get<std::string>(),
                                     item["values"].get<std::map<std::string, double>>()};
    const auto tokens = item["tokens"].get<std::vector<int32_t>>();
    const auto passes = item["passes"].get<std::vector<int32_t>>();
    const auto prompt = item["prompt"].get<std::vector<int32_t>>();
    const auto block = item["block"].get<int32_t>();
    const auto engine = make_engine(*ops, *model, block, algorithm);
    const Decoded found = decode(*engine, {prompt, static_cast<int32_t>(tokens.size()), {}});
    EXPECT_EQ(found.tokens, tokens);
    EXPECT_EQ(found.passes, passes);
    std::set<std::pair<size_t, int32_t>> distinct;  // block and pass
    for (size_t i = 0; i < passes.size(); ++i) distinct.emplace((whole ? i : prompt.size() + i) / block, passes[i]);
    compared += tokens.size();
    unmasking_passes += distinct.size();
  }
  EXPECT_GT(compared, 200U);
  EXPECT_LT(unmasking_passes, compared - 50);  // many passes unmasked several tokens
}

INSTANTIATE_TEST_SUITE_P(All, PublishedLoop,
                         ::testing::Values("sdar", "sdar_moe", "llada", "fast_dllm_v2", "dream", "llada2",
                                           "llada2_merged"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace ashlar::testing
