// SPDX-License-Identifier: Apache-2.0
// The drafter's self-test where a head drafts one token at a time: an EAGLE-3 drafter that was fitted to a tiny model
// and reads its layers [2, 0, 1].

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "golden/golden_data.h"
#include "golden/seeded_checkpoint.h"
#include "session/drafter_check.h"
#include "temp_folder.h"
#include "unit/session/one_character_tokenizer.h"

namespace ashlar::testing {
namespace {

namespace fs = std::filesystem;

class SelfTestOfEagle3 : public ::testing::Test {
 protected:
  SelfTestOfEagle3() {
    std::ofstream(target_.folder() / "tokenizer.json") << one_character_tokenizer().dump();
    fs::copy_file(right_ / "model.safetensors", wrong_ / "model.safetensors");
    Json config = read_json_file(right_ / "config.json");
    config["eagle_config"]["eagle_aux_hidden_state_layer_ids"] = {3, 1, 2};
    std::ofstream(wrong_ / "config.json") << config.dump();
  }
  const SeededCheckpoint target_{data_folder() / "families" / "qwen3"};
  const fs::path right_ = data_folder() / "heads" / "eagle3_fitted";
  const TempFolder wrong_;  // its ids count the embedding
};

TEST_F(SelfTestOfEagle3, TriesTheUsualMistakes) {
  SessionOptions options;
  options.model = target_.folder().string();
  options.drafter = wrong_.path().string();
  options.quiet = true;
  Session session(options);
  const DrafterCheck check = check_drafter(session, 3600);
  EXPECT_TRUE(check.suspicious());
  EXPECT_EQ(check.settings, "config.json");
  EXPECT_GE(check.repairs_tried, 5);
  EXPECT_TRUE(check.untried.empty());
}

}  // namespace
}  // namespace ashlar::testing
