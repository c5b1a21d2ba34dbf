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
    options.model = (kModels / "pebble-11m").string();
    options.drafter = folder_.path().string();
    Session session(options);
    return check_drafter(session);
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

TEST_F(DrafterSelfTest, WrongAuxiliaryLayersAreNoticed) {
  change_config([](Json& config) { config["dflash_config"]["target_layer_ids"] = {9, 7, 5, 3, 1}; });
  const DrafterCheck result = check();
  EXPECT_TRUE(result.suspicious()) << result.first_rate();
  EXPECT_THAT(warning_about(result), testing::HasSubstr("off by one"));
}

TEST_F(DrafterSelfTest, AWrongMaskTokenIsNoticed) {
  change_config([](Json& config) { config["dflash_config"]["mask_token_id"] = 300; });
  EXPECT_TRUE(check().suspicious());
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
