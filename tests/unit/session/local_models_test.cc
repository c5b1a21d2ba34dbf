// SPDX-License-Identifier: Apache-2.0
#include "session/models/local_models.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "hub/file_lock.h"
#include "temp_folder.h"

namespace ashlar {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class LocalModels : public testing::Test {
 protected:
  void write(const fs::path& file, const std::string& text) {
    fs::create_directories((folder_.path() / file).parent_path());
    std::ofstream(folder_.path() / file, std::ios::binary) << text;
  }
  // As a pull leaves it: the content once, and a link to it from each version.
  void write_pulled(const std::string& repo, const std::string& config, size_t weights) {
    const fs::path base = fs::path("hub") / repo;
    write(base / "blobs" / "aa", config);
    write(base / "blobs" / "bb", std::string(weights, 'x'));
    for (const char* commit : {"one", "two"}) {
      const fs::path snapshot = folder_.path() / base / "snapshots" / commit;
      fs::create_directories(snapshot);
      fs::create_symlink("../../blobs/aa", snapshot / "config.json");
      fs::create_symlink("../../blobs/bb", snapshot / "model.safetensors");
    }
  }
  std::string error_of(const std::string& name) {
    try {
      remove_pulled(name, folder_.path() / "hub", folder_.path() / "weights");
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }
  std::string instead(const fs::path& path) { return what_it_is_instead(folder_.path() / path); }

  const TempFolder folder_;
};

TEST_F(LocalModels, AreListedWithTheirSizesOnDisk) {
  write("models/b/config.json", "{}");
  write("models/b/model.safetensors", std::string(100, 'x'));
  write("models/a-dflash/config.json", R"({"dflash_config": {}})");
  write("models/c.gguf", std::string(50, 'x'));
  write("models/d-00001-of-00002.gguf", std::string(30, 'x'));
  write("models/d-00002-of-00002.gguf", std::string(12, 'x'));
  write("models/no-model/readme", "x");
  write("other/b/config.json", "{ }");
  write_pulled("models--org--m", "{}", 1000);
  write("hub/datasets--org--d/blobs/aa", "x");
  write("hub/models--broken/blobs/aa", "x");
  const std::vector<LocalModel> all = local_models(
      {folder_.path() / "models", folder_.path() / "other", folder_.path() / "nowhere"}, folder_.path() / "hub");
  std::vector<std::string> names;
  for (const LocalModel& one : all) names.push_back(one.name);
  ASSERT_THAT(names, ElementsAre("a-dflash", "b", "c.gguf", "d-00001-of-00002.gguf", "org/m"));
  EXPECT_TRUE(all[0].drafter);
  EXPECT_EQ(bytes_on_disk(all[1].folder), 102);
  EXPECT_EQ(bytes_on_disk(all[2].folder), 50);
  EXPECT_EQ(bytes_on_disk(all[3].folder), 42);
  EXPECT_EQ(bytes_on_disk(all[4].folder), 1002);  // two versions, each content once
  EXPECT_TRUE(all[4].pulled && !all[1].pulled && !all[1].drafter);
}

TEST_F(LocalModels, OnlyPulledOnesAreRemoved) {
  write_pulled("models--org--m", "{}", 1000);
  write_pulled("models--org--other", "{}", 10);
  write("hub/.locks/models--org--m/aa.lock", "");
  EXPECT_EQ(remove_pulled("org/m", folder_.path() / "hub", ""), 1002);
  EXPECT_FALSE(fs::exists(folder_.path() / "hub/models--org--m"));
  EXPECT_FALSE(fs::exists(folder_.path() / "hub/.locks/models--org--m"));
  EXPECT_TRUE(fs::exists(folder_.path() / "hub/models--org--other/blobs/bb"));
  EXPECT_THAT(error_of("org/m"), AllOf(HasSubstr("org/m is not among"), HasSubstr("ashlar list")));
  for (const char* bad : {"pebble-11m", "../x", "/etc", "org/../other", "org/other@main", ".", ""}) {
    EXPECT_THAT(error_of(bad), HasSubstr("expected ORG/MODEL")) << bad;
  }
  // A link in the cache is no repository: what it leads to is not ours.
  write("precious/file", "x");
  fs::create_directory_symlink(folder_.path() / "precious", folder_.path() / "hub/models--org--link");
  EXPECT_THAT(error_of("org/link"), HasSubstr("is not among"));
  EXPECT_TRUE(fs::exists(folder_.path() / "precious/file"));
}

TEST_F(LocalModels, WhatWasKeptOfTheirWeightsGoesToo) {
  write_pulled("models--org--m", "{}", 1000);
  const std::string hash = "-0123456789abcdef.packed";
  write("weights/one" + hash, std::string(30, 'x'));
  write("weights/two-fedcba9876543210.packed", std::string(12, 'x'));
  for (const char* other : {"one-more", "on", "three"}) write("weights/" + (other + hash), "x");
  write("weights/one-notes", "x");
  EXPECT_EQ(remove_pulled("org/m", folder_.path() / "hub", folder_.path() / "weights"), 1044);
  std::vector<std::string> left;
  for (const auto& entry : fs::directory_iterator(folder_.path() / "weights"))
    left.push_back(entry.path().filename().string());
  EXPECT_THAT(left, testing::UnorderedElementsAre("one-more" + hash, "on" + hash, "three" + hash, "one-notes"));
}

TEST_F(LocalModels, OneThatIsBeingPulledStays) {
  for (const char* lock : {"pull.lock", "aa.lock"}) {  // of a pull of ours, and of one file by the hub's own tools
    write_pulled("models--org--m", "{}", 1000);
    {
      const hub::FileLock held(folder_.path() / "hub/.locks/models--org--m" / lock, {}, hub::FileLock::Kind::kShared);
      EXPECT_THAT(error_of("org/m"), AllOf(HasSubstr("is being fetched"), HasSubstr("remove it then"))) << lock;
      EXPECT_TRUE(fs::exists(folder_.path() / "hub/models--org--m/blobs/bb"));
    }
    EXPECT_EQ(error_of("org/m"), "no error") << lock;
  }
}

TEST_F(LocalModels, OtherThingsAreNamedForWhatTheyAre) {
  write("lora/adapter_config.json", R"({"base_model_name_or_path": "org/base"})");
  write("lora/adapter_model.safetensors", "x");
  EXPECT_THAT(instead("lora"), AllOf(HasSubstr("is an adapter (LoRA) for org/base"), HasSubstr("merge_and_unload")));
  write("broken-lora/adapter_config.json", "[");
  EXPECT_THAT(instead("broken-lora"), HasSubstr("is an adapter (LoRA), not a model"));
  write("pickled/config.json", "{}");
  write("pickled/pytorch_model-00001-of-00002.bin", "x");
  EXPECT_THAT(instead("pickled"), AllOf(HasSubstr("in pytorch_model.bin only"), HasSubstr("expected *.safetensors")));
  write("alone/pytorch_model.bin", "x");
  EXPECT_THAT(instead("alone/pytorch_model.bin"), HasSubstr("holds pickled weights"));
  write("whole/config.json", "{}");
  write("whole/pytorch_model.bin", "x");
  write("whole/model.safetensors", "x");
  EXPECT_THAT(instead("whole/model.safetensors"),
              AllOf(HasSubstr("is a file of the model in"), HasSubstr("name that folder")));
  write("blobs/sha256-aa", "GGUF....");
  EXPECT_THAT(instead("blobs/sha256-aa"), AllOf(HasSubstr("is a GGUF file under another name"), HasSubstr("ln -s")));
  for (const char* text : {"", "GG", "words"}) {
    write("notes.txt", text);
    EXPECT_THAT(instead("notes.txt"), HasSubstr("is a file; expected a folder with config.json")) << text;
  }
  write("y.gguf", "GGUF");
  for (const char* fine : {"whole", "y.gguf", "nowhere", "alone"}) EXPECT_EQ(instead(fine), "") << fine;
}

}  // namespace
}  // namespace ashlar
