// SPDX-License-Identifier: Apache-2.0
#include "session/models/model_locator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "base/error.h"
#include "gguf_writer.h"
#include "session/models/source_tree.h"
#include "temp_folder.h"

namespace ashlar {
namespace {

namespace fs = std::filesystem;
using ashlar::testing::GgufWriter;
using ::testing::HasSubstr;

class ModelLocator : public ::testing::Test {
 protected:
  ModelLocator() : root_(folder_.path()) {
    for (const char* name : {"pebble-11m", "pebble-11m-dflash", "lonely"}) fs::create_directories(root_ / name);
    std::ofstream(root_ / "pebble-11m-dflash" / "config.json") << R"({"dflash_config": {}})";
    std::ofstream(root_ / "pebble-11m" / "config.json") << R"({"model_type": "qwen3"})";
  }

  std::string error_of(const std::string& model, const std::string& drafter) {
    try {
      locate_models(model, drafter, {root_});
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  const TempFolder folder_;
  const fs::path root_;
};

TEST_F(ModelLocator, TakesTheBundledPairWhenNothingIsNamed) {
  const ModelChoice choice = locate_models("", "", {root_ / "nowhere", root_});
  EXPECT_EQ(choice.model, root_ / "pebble-11m");
  EXPECT_EQ(choice.drafter, root_ / "pebble-11m-dflash");
  EXPECT_FALSE(choice.drafter_was_found);  // it belongs to the default: nothing to point out
}

TEST_F(ModelLocator, FindsTheDrafterBesideANamedModel) {
  for (const std::string& name :
       {std::string("pebble-11m"), (root_ / "pebble-11m").string(), (root_ / "pebble-11m/").string(),
        (root_ / "lonely" / ".." / "pebble-11m").string()}) {
    const ModelChoice choice = locate_models(name, "", {root_});
    EXPECT_TRUE(fs::equivalent(choice.model, root_ / "pebble-11m")) << name;
    ASSERT_TRUE(choice.drafter) << name;
    EXPECT_TRUE(fs::equivalent(*choice.drafter, root_ / "pebble-11m-dflash")) << name;
    EXPECT_TRUE(choice.drafter_was_found);
  }
  EXPECT_FALSE(locate_models("lonely", "", {root_}).drafter);
}

TEST_F(ModelLocator, DraftsByNgramsWhereThereIsNoDrafter) {
  EXPECT_TRUE(locate_models("lonely", "", {root_}).wants_ngrams);
  EXPECT_FALSE(locate_models("pebble-11m", "", {root_}).wants_ngrams);
  EXPECT_FALSE(locate_models("lonely", "none", {root_}).wants_ngrams);
  EXPECT_FALSE(locate_models("lonely", "pebble-11m-dflash", {root_}).wants_ngrams);
  const ModelChoice choice = locate_models("pebble-11m", "ngram", {root_});
  EXPECT_TRUE(choice.wants_ngrams);
  EXPECT_FALSE(choice.drafter);
}

TEST_F(ModelLocator, FollowsAnExplicitDrafter) {
  EXPECT_FALSE(locate_models("", "none", {root_}).drafter);
  const ModelChoice choice = locate_models("lonely", "pebble-11m-dflash", {root_});
  EXPECT_EQ(choice.drafter, root_ / "pebble-11m-dflash");
  EXPECT_FALSE(choice.drafter_was_found);
}

// A file of architecture dflash: found next to a model in a folder or a file, named, and refused as a model.
TEST_F(ModelLocator, TakesDraftersInGgufFiles) {
  GgufWriter file;
  file.text("general.architecture", "dflash");
  const fs::path drafter = folder_.write("lonely-dflash.gguf", file.bytes());
  for (const char* named : {"", "lonely-dflash.gguf"}) {
    const ModelChoice choice = locate_models("lonely", named, {root_});
    EXPECT_EQ(choice.drafter, drafter) << named;
    EXPECT_EQ(choice.drafter_was_found, *named == '\0');
  }
  EXPECT_THAT(error_of("lonely-dflash.gguf", ""), HasSubstr("is a drafter"));
  EXPECT_THAT(error_of("lonely-dflash.gguf", ""), HasSubstr("pass this file with --drafter"));
}

TEST_F(ModelLocator, SaysWhereItLooked) {
  EXPECT_THAT(error_of("missing", ""), HasSubstr(root_.string()));
  EXPECT_THAT(error_of("missing", ""), HasSubstr("missing"));
  EXPECT_THAT(error_of("lonely", "missing-drafter"), HasSubstr("missing-drafter"));
  EXPECT_THAT(error_of("what is this", ""), HasSubstr("--prompt"));
  EXPECT_THAT(error_of("pebble-11m-dflash", ""), HasSubstr("is a drafter"));
  fs::remove_all(root_ / "pebble-11m");
  EXPECT_THAT(error_of("", ""), HasSubstr("ASHLAR_MODELS"));
}

TEST_F(ModelLocator, ProposesAModelThatIsHere) {
  EXPECT_THAT(error_of("pebble-11n", ""), HasSubstr("did you mean pebble-11m?"));
  EXPECT_THAT(error_of("quite-another", ""), ::testing::Not(HasSubstr("did you mean")));
  const fs::path file = root_ / "pebble-11m" / "config.json";
  EXPECT_THAT(error_of(file.string(), ""), HasSubstr("is a file of the model in " + (root_ / "pebble-11m").string()));
}

TEST_F(ModelLocator, SaysWhatStandsWhereAModelOrADrafterIsExpected) {
  EXPECT_THAT(error_of("qwen3:0.6b", ""), HasSubstr("one of Ollama's library"));
  EXPECT_THAT(error_of(root_.string(), ""), HasSubstr("models in folders of their own; name one of them: pebble-11m"));
  fs::copy_file(fs::path(ASHLAR_SOURCE_DIR) / "models" / "pebble-11m" / "config.json",
                root_ / "lonely" / "config.json");
  EXPECT_THAT(error_of("pebble-11m", "lonely"), HasSubstr("is a model of its own; a small model does not draft"));
  fs::rename(root_ / "lonely" / "config.json", root_ / "lonely" / "adapter_config.json");
  EXPECT_THAT(error_of("pebble-11m", "lonely"), HasSubstr("lonely is an adapter (LoRA)"));
  GgufWriter layer;  // of a model's that draft, as llama.cpp's converter writes it by itself
  layer.text("general.architecture", "qwen35").number("qwen35.block_count", 4U);
  layer.number("qwen35.nextn_predict_layers", 1U);
  layer.tensor("blk.3.nextn.enorm.weight", {8}, 0, std::string(32, '\0'));
  folder_.write("mtp.gguf", layer.bytes());
  const std::string file = (root_ / "mtp.gguf").string();
  EXPECT_THAT(error_of("pebble-11m", file), HasSubstr("mtp.gguf holds only what drafts for a model"));
}

TEST_F(ModelLocator, TakesFilesOfOneModel) {
  std::ofstream(root_ / "some.model.gguf") << "GGUF";
  for (const fs::path& name : {root_ / "some.model.gguf", fs::path("some.model.gguf")}) {
    EXPECT_EQ(locate_models(name, "", {root_}).model, root_ / "some.model.gguf");
    EXPECT_TRUE(locate_models(name, "", {root_}).wants_ngrams);
  }
  fs::create_directories(root_ / "some.model-dflash");
  const ModelChoice choice = locate_models("some.model.gguf", "", {root_});
  EXPECT_EQ(choice.drafter, root_ / "some.model-dflash");
  EXPECT_TRUE(choice.drafter_was_found);
  EXPECT_EQ(locate_models("some.model.gguf", "pebble-11m-dflash", {root_}).drafter, root_ / "pebble-11m-dflash");
  EXPECT_EQ(folder_name(choice.model), "some.model");
  // No names of the hub. What a file is that stands where a drafter is expected is for its loader to say.
  EXPECT_FALSE(hub_name("org/other.gguf"));
  EXPECT_THAT(error_of("org/other.gguf", ""), HasSubstr("org/other.gguf is not a file"));
  EXPECT_EQ(locate_models("lonely", "some.model.gguf", {root_}).drafter, root_ / "some.model.gguf");
  EXPECT_THAT(error_of("lonely", "other.gguf"), HasSubstr("expected a DFlash or EAGLE-3 drafter"));
  std::ofstream(root_ / "lonely" / "b.gguf") << "GGUF";
  std::ofstream(root_ / "lonely" / "a.gguf") << "GGUF";
  EXPECT_THAT(error_of("lonely", ""), HasSubstr("has no config.json, but a.gguf; name that file"));
}

TEST_F(ModelLocator, AsksTheVariableFirst) {
  ::setenv("ASHLAR_MODELS", root_.c_str(), 1);
  EXPECT_EQ(model_roots().front(), root_);
  ::unsetenv("ASHLAR_MODELS");
  EXPECT_NE(model_roots().front(), root_);
}

TEST_F(ModelLocator, ABuildFolderLeadsToItsSources) {
  const fs::path program = root_ / "build/release/bin/ashlar", cache = root_ / "build/release/CMakeCache.txt";
  fs::create_directories(program.parent_path());
  std::ofstream(program) << "x";
  EXPECT_FALSE(source_tree_of(program));
  std::ofstream(cache) << "CMAKE_HOME_DIRECTORY:INTERNAL=/elsewhere\nCMAKE_PROJECT_NAME:STATIC=another\n";
  EXPECT_FALSE(source_tree_of(program)) << "another project's program that has this library";
  std::ofstream(cache) << "# text\nCMAKE_HOME_DIRECTORY:INTERNAL=" << root_.string()
                       << "\n\nCMAKE_PROJECT_NAME:STATIC=ashlar\n";
  EXPECT_EQ(source_tree_of(program), root_);
  EXPECT_EQ(source_tree_of(root_ / "build/release/tests/unit/app/app_test"), root_);
  EXPECT_FALSE(source_tree_of(root_ / "bin/ashlar"));
  // This test lies in a build folder itself.
  const std::vector<fs::path> roots = model_roots();
  EXPECT_NE(std::find(roots.begin(), roots.end(), fs::path(ASHLAR_SOURCE_DIR) / "models"), roots.end());
  // A root that is named as well is looked at once, and first.
  ::setenv("ASHLAR_MODELS", roots.back().c_str(), 1);
  std::vector<fs::path> named = model_roots();
  ::unsetenv("ASHLAR_MODELS");
  EXPECT_EQ(named.front(), roots.back());
  std::sort(named.begin(), named.end());
  EXPECT_EQ(std::adjacent_find(named.begin(), named.end()), named.end());
}

TEST_F(ModelLocator, AnAddressIsAnsweredByThePullThatFetchesIt) {
  EXPECT_THAT(error_of("https://huggingface.co/org/model", ""), HasSubstr("ashlar pull org/model"));
  EXPECT_THAT(error_of("hf.co/org/model:Q4_K_M", ""), HasSubstr("ashlar pull org/model"));
  EXPECT_THAT(error_of("qwen3:0.6b", ""), HasSubstr("ORG/MODEL of the hub"));
}

TEST_F(ModelLocator, AFolderThatIsHereIsNoNameOfTheHub) {
  const fs::path before = fs::current_path();
  fs::current_path(root_);
  EXPECT_FALSE(hub_name("lonely/mistyped"));
  EXPECT_TRUE(hub_name("elsewhere/model"));
  EXPECT_FALSE(hub_name("lonely"));
  EXPECT_THAT(error_of("lonely/mistyped", ""), ::testing::Not(HasSubstr("ashlar pull")));
  EXPECT_THAT(error_of("lonely/mistyped", ""), HasSubstr("is not a folder"));
  fs::current_path(before);
}

TEST(FolderName, IsTheLastPart) {
  EXPECT_EQ(folder_name("/a/model"), "model");
  EXPECT_EQ(folder_name("/a/model/"), "model");
  EXPECT_EQ(folder_name("model/."), "model");
  EXPECT_EQ(folder_name(fs::current_path() / "x" / ".."), fs::current_path().filename().string());
}

TEST_F(ModelLocator, TakesWhatWasPulled) {
  const std::string commit(40, 'a');
  const fs::path repo = root_ / "hub" / "models--org--model";
  setenv("HF_HUB_CACHE", (root_ / "hub").c_str(), 1);
  EXPECT_THAT(error_of("org/model", ""), HasSubstr("ashlar pull org/model"));
  EXPECT_THAT(error_of("", "org/model"), HasSubstr("ashlar pull org/model"));
  fs::create_directories(repo / "snapshots" / commit);
  fs::create_directories(repo / "refs");
  std::ofstream(repo / "refs" / "main") << commit;
  std::ofstream(repo / "snapshots" / commit / "config.json") << R"({"model_type": "qwen3"})";
  EXPECT_THAT(error_of("org/model", ""), HasSubstr("ashlar pull org/model"));  // weights are missing
  std::ofstream(repo / "snapshots" / commit / "model.safetensors") << "x";
  EXPECT_THAT(error_of("org/model", ""), HasSubstr("it lacks tokenizer.json; to fetch what is missing: ashlar pull"));
  EXPECT_EQ(locate_models("", "org/model", {root_}).drafter, repo / "snapshots" / commit);  // which needs none
  std::ofstream(repo / "snapshots" / commit / "tokenizer.json") << "{}";
  EXPECT_EQ(locate_models("org/model", "", {root_}).model, repo / "snapshots" / commit);
  EXPECT_EQ(locate_models("org/model@" + commit, "", {root_}).model, repo / "snapshots" / commit);
  EXPECT_EQ(locate_models("", "org/model", {root_}).drafter, repo / "snapshots" / commit);
  EXPECT_EQ(folder_name(repo / "snapshots" / commit), "org/model");
  // A drafter where a model is expected is called one: no pull would bring it a tokenizer.
  fs::remove(repo / "snapshots" / commit / "tokenizer.json");
  std::ofstream(repo / "snapshots" / commit / "config.json") << R"({"dflash_config": {}})";
  EXPECT_THAT(error_of("org/model", ""), HasSubstr("is a drafter"));
  unsetenv("HF_HUB_CACHE");
}

}  // namespace
}  // namespace ashlar
