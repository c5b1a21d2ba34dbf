// SPDX-License-Identifier: Apache-2.0
#include "session/models/known_drafters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "base/error.h"
#include "session/models/model_locator.h"
#include "temp_folder.h"

namespace ashlar {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class KnownDrafters : public testing::Test {
 protected:
  KnownDrafters() {
    setenv("HF_HUB_CACHE", (folder_ / "hub").c_str(), 1);
    setenv("XDG_CONFIG_HOME", (folder_ / "config").c_str(), 1);
  }
  ~KnownDrafters() override {
    unsetenv("HF_HUB_CACHE");
    unsetenv("XDG_CONFIG_HOME");
  }
  void write(const fs::path& file, const std::string& text) {
    fs::create_directories((folder_ / file).parent_path());
    std::ofstream(folder_ / file) << text;
  }
  // As a pull leaves it.
  fs::path write_pulled(const std::string& org, const std::string& name, const std::string& config) {
    const std::string commit(40, 'a');
    const fs::path repo = fs::path("hub") / ("models--" + org + "--" + name);
    write(repo / "refs/main", commit);
    for (const char* file : {"tokenizer.json", "model.safetensors"}) write(repo / "snapshots" / commit / file, "{}");
    write(repo / "snapshots" / commit / "config.json", config);
    return folder_ / (repo / "snapshots" / commit);
  }
  std::string error_of(const std::string& model) {
    try {
      locate_models(model, "", {});
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  const std::string model_config_ = R"({"model_type": "qwen3"})", drafter_config_ = R"({"dflash_config": {}})";
  const TempFolder folder_;
};

TEST_F(KnownDrafters, ComeFromATableThatAPersonMayChange) {
  const DrafterTable published = drafter_table(folder_ / "nowhere.json");
  EXPECT_EQ(hub::name_of(*drafter_for("Qwen/Qwen3-8B", published)), "z-lab/Qwen3-8B-DFlash-b16");
  EXPECT_EQ(model_for("z-lab/Qwen3-8B-DFlash-b16", published), "Qwen/Qwen3-8B");
  EXPECT_FALSE(drafter_for("Qwen/Qwen3-8", published));
  EXPECT_FALSE(model_for("Qwen/Qwen3-8B", published));
  write("own.json", R"({"Qwen/Qwen3-8B": "me/better", "Qwen/Qwen3-4B": null, "me/mine": "me/drafter@v2"})");
  const DrafterTable own = drafter_table(folder_ / "own.json");
  EXPECT_EQ(hub::name_of(*drafter_for("Qwen/Qwen3-8B", own)), "me/better");
  EXPECT_FALSE(drafter_for("Qwen/Qwen3-4B", own));
  EXPECT_EQ(drafter_for("me/mine", own)->revision, "v2");
  EXPECT_EQ(own.size(), published.size());
  for (const char* wrong : {"[]", R"({"a b": "me/x"})", R"({"me/x": 5})", R"({"me/x": "../x"})", "{"}) {
    write("wrong.json", wrong);
    EXPECT_THROW(drafter_table(folder_ / "wrong.json"), Error) << wrong;
  }
}

TEST_F(KnownDrafters, OnesThatWerePulledAreUsed) {
  const fs::path model = write_pulled("me", "mine", model_config_);
  write("config/ashlar/drafters.json", R"({"me/mine": "me/drafter"})");
  EXPECT_TRUE(locate_models("me/mine", "", {}).wants_ngrams);
  const fs::path drafter = write_pulled("me", "drafter", drafter_config_);
  const ModelChoice choice = locate_models("me/mine", "", {});
  EXPECT_EQ(choice.model, model);
  EXPECT_EQ(choice.drafter, drafter);
  EXPECT_TRUE(choice.drafter_was_found);
  EXPECT_FALSE(locate_models("me/mine", "none", {}).drafter);
}

TEST_F(KnownDrafters, ADrafterNamesItsModel) {
  const auto config = [](const std::string& verifier) {
    return R"({"speculators_model_type": "eagle3", "speculators_config": {"verifier": {"name_or_path": ")" + verifier +
           R"("}}})";
  };
  write("spec/config.json", config("me/mine"));
  EXPECT_THAT(error_of(folder_ / "spec"),
              AllOf(HasSubstr("is a drafter for me/mine, which is not here"), HasSubstr("ashlar pull me/mine")));
  const fs::path model = write_pulled("me", "mine", model_config_);
  ModelChoice choice = locate_models(folder_ / "spec", "", {});
  EXPECT_EQ(choice.model, model);
  EXPECT_EQ(choice.drafter, folder_ / "spec");
  EXPECT_FALSE(choice.drafter_was_found);
  choice = locate_models(folder_ / "spec", "none", {});  // the model of that drafter, plainly
  EXPECT_EQ(choice.model, model);
  EXPECT_FALSE(choice.drafter);
  // A path that is another machine's: a folder of that name next to the drafter, or under a root.
  write("there/config.json", model_config_);
  write("spec/config.json", config("/data/models/there"));
  EXPECT_EQ(locate_models(folder_ / "spec", "", {}).model, folder_ / "there");
  EXPECT_EQ(locate_models((folder_ / "spec").string() + "/", "", {}).model,
            folder_ / "there");  // as shells complete it
  for (const char* nowhere : {"/data/models/..", ".", "/"}) {
    write("spec/config.json", config(nowhere));
    EXPECT_THAT(error_of(folder_ / "spec"), HasSubstr("is a drafter for")) << nowhere;
  }
  write("roots/elsewhere/config.json", model_config_);
  write("spec/config.json", config("someone/elsewhere"));
  EXPECT_EQ(locate_models(folder_ / "spec", "", {folder_ / "roots"}).model, folder_ / "roots/elsewhere");
  // One that was pulled says nothing itself, but is in the table.
  write("config/ashlar/drafters.json", R"({"me/mine": "me/drafter"})");
  const fs::path drafter = write_pulled("me", "drafter", drafter_config_);
  choice = locate_models("me/drafter", "", {});
  EXPECT_EQ(choice.model, model);
  EXPECT_EQ(choice.drafter, drafter);
  // What names a drafter, or itself, as its model is no model.
  write("loop/config.json", config((folder_ / "loop").string()));
  EXPECT_THAT(error_of(folder_ / "loop"), HasSubstr("which is not here"));
  for (const char* text : {R"({"dflash_config": {}, "speculators_config": {"verifier": {"name_or_path": 5}}})",
                           R"({"dflash_config": {}, "speculators_config": []})"}) {
    write("spec/config.json", text);
    EXPECT_THAT(error_of(folder_ / "spec"), HasSubstr("name the model that it was trained for")) << text;
  }
}

}  // namespace
}  // namespace ashlar
