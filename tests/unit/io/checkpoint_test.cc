// SPDX-License-Identifier: Apache-2.0
#include "io/weights/checkpoint.h"

#include "unit/io/outside_files.h"

namespace ashlar::testing {
namespace {

constexpr const char* kIndex = "model.safetensors.index.json";

class CheckpointFiles : public ::testing::Test {
 protected:
  void shard(const std::string& file, const std::vector<std::string>& names) const {
    std::vector<TensorSpec> tensors;
    for (const std::string& name : names) tensors.push_back(zeros(name, "F32", 4, {2}));
    folder_.write(file, safetensors(tensors));
  }
  void index(const std::string& map) const { folder_.write(kIndex, "{\"metadata\":{},\"weight_map\":" + map + "}"); }
  void refuse(std::vector<std::string> parts) const {
    parts.push_back(folder_.path().string());
    expect_error([&] { Checkpoint checkpoint(folder_.path()); }, parts);
  }

  TempFolder folder_;
};

TEST_F(CheckpointFiles, ReadsOneFile) {
  shard("model.safetensors", {"a", "b"});
  const Checkpoint checkpoint(folder_.path());
  EXPECT_EQ(checkpoint.tensors().size(), 2u);
  EXPECT_EQ(checkpoint.tensors().at("b")->name, "b");
  EXPECT_EQ(checkpoint.folder(), folder_.path());
}

TEST_F(CheckpointFiles, ReadsShards) {
  shard("m-1.safetensors", {"a", "c"});
  shard("m-2.safetensors", {"b"});
  shard("consolidated.safetensors", {"not of the index"});
  index(R"({"a":"m-1.safetensors","b":"m-2.safetensors","c":"m-1.safetensors"})");
  const Checkpoint checkpoint(folder_.path());
  EXPECT_EQ(checkpoint.tensors().size(), 3u);
  EXPECT_EQ(weight_files(folder_.path()),
            (std::vector{folder_.path() / "m-1.safetensors", folder_.path() / "m-2.safetensors"}));
  EXPECT_EQ(checkpoint.tensors().at("b")->file, (folder_.path() / "m-2.safetensors").string());
  EXPECT_EQ(checkpoint.tensors().at("b")->bytes, 8u);
  EXPECT_EQ(checkpoint.tensors().at("c")->bytes, 8u);
}

// Merged shards may still have an index; whatever it says, the whole file counts, as in transformers.
TEST_F(CheckpointFiles, AWholeFileComesBeforeAnIndex) {
  shard("model.safetensors", {"a", "b"});
  for (const char* map : {R"({"a":"m-1.safetensors"})", R"({"a":"model.safetensors"})", "[", "{}"}) {
    index(map);
    EXPECT_EQ(Checkpoint(folder_.path()).tensors().size(), 2u) << map;
  }
  shard("model-00001-of-00001.safetensors", {"c"});
  EXPECT_EQ(Checkpoint(folder_.path()).tensors().size(), 2u);
}

TEST_F(CheckpointFiles, ReadsShardsWithoutAnIndex) {
  shard("model-00002-of-00002.safetensors", {"b"});
  refuse({"lacks shard 1 of 2"});
  shard("model-00001-of-00002.safetensors", {"a", "c"});
  for (const char* other :
       {"consolidated.safetensors", "model-00001-of-0002.safetensors", "model-00003-of-00002.safetensors",
        "model-0000x-of-00002.safetensors", "model-00001-of-00002.safetensors.tmp"}) {
    folder_.write(other, "no shard");
  }
  const Checkpoint checkpoint(folder_.path());
  EXPECT_EQ(checkpoint.tensors().size(), 3u);
  EXPECT_EQ(weight_files(folder_.path()), (std::vector{folder_.path() / "model-00001-of-00002.safetensors",
                                                       folder_.path() / "model-00002-of-00002.safetensors"}));
  EXPECT_EQ(checkpoint.tensors().at("b")->file, (folder_.path() / "model-00002-of-00002.safetensors").string());
  shard("model-00002-of-00002.safetensors", {"b", "c"});
  refuse({"model-00002-of-00002.safetensors", "tensor c", "model-00001-of-00002.safetensors holds too"});
  shard("model-00001-of-00003.safetensors", {"a"});
  refuse({"holds shards of", "model.safetensors.index.json"});
}

TEST_F(CheckpointFiles, RefusesFoldersWithoutWeights) {
  refuse({"has no weights", "model.safetensors"});
  expect_error([&] { Checkpoint checkpoint(folder_.path() / "none"); }, {"none", "not a folder"});
  const auto file = folder_.write("file", "");
  expect_error([&] { Checkpoint checkpoint(file); }, {"file", "not a folder"});
  expect_error([&] { Checkpoint checkpoint(folder_.path() / std::string(300, 'x')); }, {"not a folder"});
}

TEST_F(CheckpointFiles, RefusesAMissingShard) {
  shard("m-1.safetensors", {"a"});
  index(R"({"a":"m-1.safetensors","b":"m-2.safetensors"})");
  refuse({kIndex, "m-2.safetensors", "not in the folder"});
}

TEST_F(CheckpointFiles, RefusesShardsOutsideTheFolder) {
  const TempFolder elsewhere;
  elsewhere.write("x.safetensors", safetensors({zeros("a", "F32", 4, {2})}));
  std::vector<std::string> names = {"../x.safetensors",
                                    "/etc/passwd",
                                    "sub/x.safetensors",
                                    ".",
                                    "..",
                                    "",
                                    "sub/",
                                    "a\\\\b",
                                    "m.safetensors\\u0000.png",
                                    (elsewhere.path() / "x.safetensors").string()};
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    index("{\"a\":\"" + name + "\"}");
    refuse({kIndex, "tensor a", "a file of the same folder"});
  }
  index("{\"a\":\"" + std::string(5000, 'x') + "\"}");
  refuse({kIndex, "not in the folder"});
}

TEST_F(CheckpointFiles, RefusesAnIndexThatDisagreesWithTheShards) {
  shard("m-1.safetensors", {"a", "c"});
  shard("m-2.safetensors", {"b"});
  index(R"({"a":"m-1.safetensors","b":"m-2.safetensors"})");
  refuse({"m-1.safetensors", "tensor c", "does not name"});
  index(R"({"a":"m-1.safetensors","b":"m-2.safetensors","c":"m-2.safetensors"})");
  refuse({"m-1.safetensors", "tensor c", "places in m-2.safetensors"});
  index(R"({"a":"m-1.safetensors","b":"m-2.safetensors","c":"m-1.safetensors","d":"m-2.safetensors"})");
  refuse({kIndex, "tensor d", "m-2.safetensors", "does not hold it"});
  index(R"({"a":"m-1.safetensors","a":"m-2.safetensors"})");
  refuse({kIndex, "repeats the key \"a\""});
}

TEST_F(CheckpointFiles, RefusesATensorInTwoShards) {
  shard("m-1.safetensors", {"a"});
  shard("m-2.safetensors", {"a", "b"});
  index(R"({"a":"m-1.safetensors","b":"m-2.safetensors"})");
  refuse({"m-2.safetensors", "tensor a", "places in m-1.safetensors"});
}

TEST_F(CheckpointFiles, RefusesAnIndexOfAnotherForm) {
  for (const std::string& text :
       {std::string("[]"), std::string("{}"), std::string("{\"weight_map\":null}"), std::string("{"), std::string(),
        std::string("{\"weight_map\":[\"a\"]}"), std::string("{\"weight_map\":{\"a\":1}}")}) {
    SCOPED_TRACE(text);
    folder_.write(kIndex, text);
    refuse({kIndex});
  }
}

TEST_F(CheckpointFiles, RefusesADamagedShard) {
  folder_.write("m-1.safetensors", "damaged");
  index(R"({"a":"m-1.safetensors"})");
  refuse({"m-1.safetensors", "7 bytes"});
  std::filesystem::remove(folder_.path() / "m-1.safetensors");
  std::filesystem::create_directory(folder_.path() / "m-1.safetensors");
  refuse({"m-1.safetensors", "regular file"});
}

}  // namespace
}  // namespace ashlar::testing
