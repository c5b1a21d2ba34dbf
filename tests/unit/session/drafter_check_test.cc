// SPDX-License-Identifier: Apache-2.0
#include "session/drafter_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "io/mapped_file.h"
#include "temp_folder.h"

namespace ashlar {
namespace {

namespace fs = std::filesystem;

const fs::path kModels = fs::path(ASHLAR_SOURCE_DIR) / "models";

class DrafterSelfTest : public testing::Test {
 protected:
  DrafterSelfTest() {
    for (const char* name : {"config.json", "model.safetensors"}) {
      fs::copy_file(kModels / "pebble-11m-dflash" / name, folder_ / name, fs::copy_options::overwrite_existing);
      fs::permissions(folder_ / name, fs::perms::owner_write, fs::perm_options::add);
    }
  }

  void change_config(const std::function<void(Json&)>& change) {
    Json config = read_json_file(folder_ / "config.json");
    change(config);
    std::ofstream(folder_ / "config.json") << config.dump();
  }

  DrafterCheck check() {
    SessionOptions options;
    options.device = "cpu";
    options.model = (kModels / "pebble-11m").string();
    options.drafter = folder_.path().string();
    Session session(options);
    return check_drafter(session, 3600);  // however slow this build and this machine are
  }

  const TempFolder folder_;
};

TEST_F(DrafterSelfTest, TheBundledDrafterPasses) {
  const DrafterCheck result = check();
  EXPECT_GE(result.steps, 6);
  EXPECT_FALSE(result.suspicious()) << result.first_rate();
  EXPECT_GT(result.mean_length, 1.5);
  EXPECT_EQ(warning_about(result), "");
}

// The drafter was trained with layers [1, 3, 5, 7, 9], mask token 3, rope base 10000, blocks that see themselves whole
// and slots that fill in: each of these is what the repair must find again.
TEST_F(DrafterSelfTest, AMistakeInTheConfigurationIsNoticedAndNamed) {
  const Json right = read_json_file(folder_ / "config.json");
  struct Mistake {
    std::function<void(Json&)> make;
    const char* said;
  };
  const Mistake mistakes[] = {
      {[](Json& config) {
         config["dflash_config"]["target_layer_ids"] = {9, 7, 5, 3, 1};
       },
       "target_layer_ids in ascending order, [1, 3, 5, 7, 9]"},
      {[](Json& config) { config["dflash_config"]["mask_token_id"] = 300; }, "mask_token_id 3"},
      {[](Json& config) { config["dflash_config"]["sample_from_anchor"] = true; }, "sample_from_anchor false"},
      {[](Json& config) {
         config["dflash_config"]["sample_from_anchor"] = true;
         config["block_size"] = 3;  // which has one row fewer once that is mended
       },
       "sample_from_anchor false"},
      {[](Json& config) { config["rope_theta"] = 10; }, "rope_theta"},
  };
  for (const Mistake& mistake : mistakes) {
    change_config([&](Json& config) {
      config = right;
      mistake.make(config);
    });
    const DrafterCheck result = check();
    EXPECT_TRUE(result.suspicious()) << mistake.said << ": " << result.first_rate();
    ASSERT_TRUE(result.repair) << mistake.said;
    EXPECT_THAT(result.repair->what, testing::HasSubstr(mistake.said));
    EXPECT_THAT(warning_about(result), testing::HasSubstr("config.json is wrong: with " + result.repair->what));
  }
}

TEST_F(DrafterSelfTest, ADrafterThatNoSettingMendsIsSaidToBeForAnotherModel) {
  change_config([](Json& config) {
    config["dflash_config"]["target_layer_ids"] = {9, 7, 5, 3, 1};
    config["dflash_config"]["mask_token_id"] = 300;
    config["rope_theta"] = 10;
  });
  const DrafterCheck result = check();
  EXPECT_TRUE(result.suspicious()) << result.first_rate();
  EXPECT_FALSE(result.repair) << result.repair->what;
  EXPECT_GE(result.repairs_tried, 6);
  const std::string warning = warning_about(result);
  EXPECT_THAT(warning, testing::HasSubstr("trained for another model"));
  // What was tried and did not help is no advice.
  for (const char* tried : {"target_layer_ids", "mask_token_id", "rope_theta", "is_causal"}) {
    EXPECT_THAT(warning, testing::Not(testing::HasSubstr(tried)));
  }
}

TEST(DrafterWarning, SaysWhereSettingsStandAndWhatWasNotTried) {
  DrafterCheck check;
  check.steps = 10;
  check.mean_length = 1;
  check.settings = "config.json";
  check.repairs_tried = 2;
  check.untried = {"rope_theta", "is_causal"};
  EXPECT_THAT(warning_about(check), testing::HasSubstr("(2 other settings of its config.json were tried"));
  EXPECT_THAT(warning_about(check), testing::HasSubstr("rope_theta, is_causal of its config.json, which there was no"));
  check.repair = {"mask_token_id 3", 0.5, 2};
  EXPECT_THAT(warning_about(check), testing::HasSubstr("Its config.json is wrong: with mask_token_id 3"));
  check.settings = "metadata";  // of a GGUF file
  EXPECT_THAT(warning_about(check), testing::HasSubstr("Its metadata is wrong: with mask_token_id 3"));
  // The model's own layer has neither settings nor another model.
  DrafterCheck layer;
  layer.steps = 10;
  layer.mean_length = 1;
  EXPECT_THAT(warning_about(layer), testing::HasSubstr("the layer that drafts was left as it was"));
  for (const char* wrong : {"another model", "config.json", "rope_scaling"}) {
    EXPECT_THAT(warning_about(layer), testing::Not(testing::HasSubstr(wrong)));
  }
}

TEST_F(DrafterSelfTest, ARecordSetsTheExpectation) {
  EXPECT_FALSE(recorded_first_acceptance(folder_.path()));
  std::ofstream(folder_ / "acceptance.json") << R"({"first_position": 0.75})";
  EXPECT_EQ(recorded_first_acceptance(folder_.path()), 0.75);
  DrafterCheck result;
  result.steps = 10;
  result.first_accepted = 3;
  result.mean_length = 1.6;
  EXPECT_FALSE(result.suspicious());
  result.recorded_first = 0.75;
  EXPECT_TRUE(result.suspicious());
  EXPECT_THAT(warning_about(result), testing::HasSubstr("75 %"));
  result.recorded_first.reset();
  result.mean_length = 1.1;
  EXPECT_TRUE(result.suspicious());
  result.steps = 5;  // too few to be sure
  EXPECT_FALSE(result.suspicious());
  for (const char* bad : {"{}", "{\"first_position\": 7}", "[]", "{\"first_position\": \"x\"}"}) {
    std::ofstream(folder_ / "acceptance.json") << bad;
    EXPECT_THROW(recorded_first_acceptance(folder_.path()), Error) << bad;
  }
}

}  // namespace
}  // namespace ashlar
