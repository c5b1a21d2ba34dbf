// Answers of block-diffusion models against those of the decoding loops that their authors published, token for token
// and pass for pass (tests/tools/make_block_loop_goldens.py says which, and on what).

#include <gtest/gtest.h>

#include <set>

#include "device/device.h"
#include "golden/block_engine.h"
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
  int64_t compared = 0, settled_together = 0;
  for (const Json& item : cases) {
    if (item["folder"] != GetParam()) continue;
    SCOPED_TRACE(item.dump());
    const RuleSpec rule = {item["rule"].get<std::string>(), item["values"].get<std::map<std::string, double>>()};
    const auto tokens = item["tokens"].get<std::vector<int32_t>>();
    const auto passes = item["passes"].get<std::vector<int32_t>>();
    const auto engine = make_engine(*ops, *model, item["block"].get<int32_t>(), rule);
    const Decoded found =
        decode(*engine, {item["prompt"].get<std::vector<int32_t>>(), static_cast<int32_t>(tokens.size()), {}});
    EXPECT_EQ(found.tokens, tokens);
    EXPECT_EQ(found.passes, passes);
    compared += static_cast<int64_t>(tokens.size());
    settled_together += static_cast<int64_t>(passes.size() - std::set<int32_t>(passes.begin(), passes.end()).size());
  }
  EXPECT_GT(compared, 200);
  EXPECT_GT(settled_together, 0);
}

INSTANTIATE_TEST_SUITE_P(All, PublishedLoop, ::testing::Values("sdar", "sdar_moe", "llada", "fast_dllm_v2", "dream"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace ashlar::testing
