// SPDX-License-Identifier: Apache-2.0
#include "measure/synth/synth.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <set>
#include <tuple>

#include "base/error.h"
#include "decode/registry.h"
#include "device/device.h"
#include "io/mapped_file.h"
#include "measure/engine/step_bench.h"
#include "measure/synth/asked_tensors.h"
#include "measure/synth/shapes.h"
#include "model/drafters/mtp.h"
#include "model/model.h"
#include "temp_folder.h"
#include "text/tokenizer/tokenizer.h"

namespace ashlar {
namespace {

namespace fs = std::filesystem;

const fs::path kFamilies = fs::path(ASHLAR_TEST_DATA) / "families";

int64_t count_of(const std::vector<AskedTensor>& tensors) {
  int64_t n = 0;
  for (const AskedTensor& tensor : tensors) n += tensor.count();
  return n;
}

// Of the model itself, without a layer that drafts.
int64_t parameters_of(const fs::path& folder) {
  const std::string drafts = read_model_config(folder).mtp_prefix();
  int64_t n = 0;
  for (const AskedTensor& tensor : asked_tensors(folder).model) {
    n += drafts.empty() || !tensor.name.starts_with(drafts) ? tensor.count() : 0;
  }
  return n;
}

// What the models' pages on the hub say (tied heads count once).
TEST(Synth, ShapesHaveThePublishedNumbersOfParameters) {
  const std::map<std::string, int64_t> published = {
      {"qwen3-0.6b", 596049920},    {"qwen3-1.7b", 1720574976},   {"qwen3-4b", 4022468096},
      {"qwen3-8b", 8190735360},     {"qwen3-14b", 14768307200},   {"qwen3-32b", 32762123264},
      {"llama-3.2-1b", 1235814400}, {"llama-3.1-8b", 8030261248}, {"qwen3-30b-a3b", 30532122624}};
  size_t known = 0;
  for (const auto& [name, parameters] : published) {
    const TempFolder folder;
    folder.write("config.json", shape_config(name).dump());
    EXPECT_EQ(parameters_of(folder.path()), parameters) << name;
    known += shape_names().find(name) != std::string::npos ? 1 : 0;
  }
  EXPECT_EQ(known, published.size());
}

// What llama.cpp prints of their files, which leave the vision tower out; of the third also with the layer that drafts.
TEST(Synth, HybridsHaveTheParametersOfTheirFiles) {
  const auto billions = [](int64_t n) { return static_cast<double>(n) * 1e-9; };
  for (const auto& [name, expected, drafting] :
       {std::tuple("qwen3.5-4b", 4.21, 0.0), {"qwen3.5-9b", 8.95, 0.0}, {"qwen3.5-35b-a3b", 34.66, 35.51}}) {
    const TempFolder folder;
    folder.write("config.json", shape_config(name).dump());
    const int64_t parameters = parameters_of(folder.path()), all = count_of(asked_tensors(folder.path()).model);
    EXPECT_NEAR(billions(parameters), expected, 0.005) << name;
    EXPECT_GT(all, parameters) << name << " has a layer that drafts";
    if (drafting == 0) continue;
    EXPECT_NEAR(billions(all), drafting, 0.005) << name;
  }
}

// Names and shapes of the folders that the Python packages wrote.
TEST(Synth, AsksForWhatCheckpointsHold) {
  // What these hold besides or in another form does not follow from their configuration: parts that text has no use
  // for, a head that is stored though it is tied, a layer that drafts, experts in one tensor, numbers in blocks.
  const std::set<std::string> others = {"gemma3",      "gemma4",     "gpt_oss_mxfp4",          "qwen3_5",
                                        "qwen3_5_moe", "qwen3_next", "qwen3_tied_head_stored", "qwen3_tied_other_head"};
  size_t compared = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(kFamilies)) {
    if (!entry.is_directory() || !fs::exists(entry.path() / "tensors.json")) continue;
    std::set<std::string> stored, asked;
    const Json files = read_json_file(entry.path() / "tensors.json")["files"];
    for (const auto& [file, tensors] : files.items()) {
      for (const Json& tensor : tensors) stored.insert(tensor["name"].get<std::string>() + tensor["shape"].dump());
    }
    const std::string drafts = read_model_config(entry.path()).mtp_prefix();
    const bool stores_it = !drafts.empty() && std::ranges::any_of(stored, [&](const std::string& name) {
      return name.starts_with(drafts);
    });
    for (const AskedTensor& tensor : asked_tensors(entry.path()).model) {
      if (!stores_it && !drafts.empty() && tensor.name.starts_with(drafts)) continue;  // those without it have none
      asked.insert(tensor.name + Json(tensor.shape).dump());
    }
    ++compared;
    EXPECT_EQ(stored == asked, !others.contains(entry.path().filename())) << entry.path();
  }
  EXPECT_GE(compared, 30u);
}

/// A configuration of the tests with a vocabulary that holds the tokenizer.
fs::path config_of(const TempFolder& folder, const std::string& family) {
  Json config = read_json_file(kFamilies / family / "config.json");
  config["vocab_size"] = 300;
  return folder.write(family + ".json", config.dump());
}

class SynthFamilies : public ::testing::TestWithParam<std::string> {};

TEST_P(SynthFamilies, LoadAndDecode) {
  const TempFolder folder;
  SynthOptions options;
  options.shape = config_of(folder, GetParam());
  options.folder = folder / "made";
  options.drafters = {"dflash", "dflash2", "eagle3"};
  options.drafter_layers = 2;
  const SynthResult made = synthesize(options);
  ASSERT_EQ(made.drafters.size(), options.drafters.size());
  EXPECT_EQ(made.drafters[1].folder, folder / "made-dflash2");
  const std::unique_ptr<Ops> ops = make_device("cpu", {});
  const std::unique_ptr<Model> model = Model::load(*ops, made.model.folder);  // strict: neither more nor fewer tensors
  EXPECT_EQ(Tokenizer::from_model(made.model.folder).encode("ab\n").size(), 3u);
  std::vector<fs::path> drafters = {""};
  for (const SynthResult::Made& drafter : made.drafters) drafters.push_back(drafter.folder);
  if (has_mtp(made.model.folder)) drafters.push_back(made.model.folder);
  EXPECT_EQ(drafters.size(), std::string(GetParam()).starts_with("qwen3_5") ? 5u : 4u);
  for (const fs::path& drafter : drafters) {
    SCOPED_TRACE(drafter);
    DecoderSpec spec;
    if (!drafter.empty()) {
      spec.drafter = drafter;
      spec.method = method_of_drafter(drafter);
    }
    model->reserve(64);
    std::unique_ptr<Decoder> decoder = make_decoder(*model, spec);
    const int32_t width = decoder->max_width();
    EXPECT_EQ(width > 1, !drafter.empty());
    StepBench bench(*ops, std::move(decoder), std::vector<int32_t>(20, 65), 8, width, 64);
    for (int i = 0; i < 4; ++i) bench.step();
    EXPECT_GE(bench.tokens(), 4);
  }
}

INSTANTIATE_TEST_SUITE_P(All, SynthFamilies,
                         ::testing::Values("qwen3", "qwen3_moe_sliding", "qwen3_5_text", "gpt_oss", "olmo2"),
                         [](const auto& info) { return info.param; });

bool holds_same(const StoredTensor& a, const StoredTensor& b) {
  return a.dtype == b.dtype && a.shape == b.shape && std::memcmp(a.data, b.data, a.bytes) == 0;
}

std::map<std::string, std::string> files_of(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    std::ifstream file(entry.path(), std::ios::binary);
    files[entry.path().filename()] = {std::istreambuf_iterator<char>(file), {}};
  }
  return files;
}

TEST(Synth, TheSameSeedGivesTheSameBytes) {
  const TempFolder folder;
  SynthOptions options;
  options.shape = config_of(folder, "qwen3");
  const auto made = [&](const char* name, uint64_t seed, int64_t shard_bytes) {
    options.folder = folder / name;
    options.seed = seed;
    options.shard_bytes = shard_bytes;
    return files_of(synthesize(options).model.folder);
  };
  const auto first = made("first", 7, 1 << 30);
  EXPECT_EQ(first, made("again", 7, 1 << 30));
  EXPECT_NE(first.at("model.safetensors"), made("other", 8, 1 << 30).at("model.safetensors"));
  // The same tensors in shards.
  const auto shards = made("shards", 7, 20000);
  EXPECT_FALSE(shards.contains("model.safetensors"));
  EXPECT_GE(shards.size(), 6u);
  const Checkpoint whole(folder / "first"), cut(folder / "shards");
  ASSERT_EQ(whole.tensors().size(), cut.tensors().size());
  for (const auto& [name, tensor] : whole.tensors()) EXPECT_TRUE(holds_same(*tensor, *cut.tensors().at(name))) << name;
}

std::string error_of(const SynthOptions& options) {
  try {
    synthesize(options);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Synth, RefusesWhatItCannotMake) {
  const TempFolder folder;
  SynthOptions options;
  options.folder = folder / "made";
  options.shape = "qwen9-1b";
  EXPECT_NE(error_of(options).find("unknown shape \"qwen9-1b\"; expected one of qwen3-0.6b, "), std::string::npos);
  EXPECT_FALSE(fs::exists(options.folder));
  options.shape = kFamilies / "qwen3" / "config.json";
  EXPECT_NE(error_of(options).find("expected at least 260"), std::string::npos);
  options.shape = config_of(folder, "qwen3");
  folder.write("model-00001-of-00002.safetensors", "old");
  options.folder = folder.path();
  EXPECT_NE(error_of(options).find("has files in it"), std::string::npos);
  options.folder = folder / "qwen3.json";
  EXPECT_NE(error_of(options).find("is a file"), std::string::npos);
  options.shape = kFamilies / "qwen3";
  options.folder = folder / "made";
  EXPECT_NE(error_of(options).find("expected at least 260"), std::string::npos)
      << "a folder stands for its config.json";
  options.shape = config_of(folder, "qwen3");
  options.drafters = {"medusa"};
  EXPECT_NE(error_of(options).find("unknown drafter \"medusa\"; expected dflash, dflash2, eagle3"), std::string::npos);
  options.drafters = {"dflash", "dflash"};
  EXPECT_NE(error_of(options).find("named twice"), std::string::npos);
  EXPECT_FALSE(fs::exists(options.folder));
  options.layers = 2;
  options.shape = kFamilies / "gemma3" / "config.json";
  EXPECT_NE(error_of(options).find("in place of --layers"), std::string::npos);
}

// 100 TB, and stopped at once where a disk has that much.
TEST(Synth, RefusesWhatTheDiskHasNoRoomFor) {
  const TempFolder folder;
  Json config = read_json_file(config_of(folder, "qwen3"));
  config["hidden_size"] = 1 << 14;
  config["intermediate_size"] = 1 << 20;
  SynthOptions options;
  options.shape = folder.write("large.json", config.dump());
  options.layers = 1000;
  options.folder = folder / "made";
  options.stopped = [] { return true; };
  EXPECT_NE(error_of(options).find(": the disk has room for "), std::string::npos);
  EXPECT_FALSE(fs::exists(options.folder));
}

TEST(Synth, ForceReplacesTheModelAlone) {
  const TempFolder folder;
  SynthOptions options;
  options.shape = config_of(folder, "qwen3");
  options.folder = folder / "new";
  options.drafters = {"dflash"};
  options.drafter_layers = 1;
  synthesize(options);
  auto expected = files_of(options.folder);
  options.folder = folder / "old";
  options.force = true;
  fs::create_directory(options.folder);
  for (const char* name : {"model-00001-of-00002.safetensors", "model.safetensors.index.json", "chat_template.jinja",
                           "generation_config.json", "notes.txt"}) {
    folder.write("old/" + std::string(name), "old");
  }
  EXPECT_EQ(error_of(options), "");
  expected["notes.txt"] = "old";
  EXPECT_EQ(files_of(options.folder), expected);
  EXPECT_EQ(files_of(folder / "old-dflash"), files_of(folder / "new-dflash"));
}

// A drafter's folder that is refused, and Ctrl-C when some of it is written.
TEST(Synth, WhatFailsLeavesEverythingAsItWas) {
  const TempFolder folder;
  SynthOptions options;
  options.shape = config_of(folder, "qwen3");
  options.shard_bytes = 20000;
  options.drafters = {"dflash"};
  options.drafter_layers = 1;
  options.folder = folder / "made";
  folder.write("made-dflash", "a file");
  EXPECT_NE(error_of(options).find("made-dflash: is a file"), std::string::npos);
  EXPECT_FALSE(fs::exists(options.folder));
  fs::remove(folder / "made-dflash");
  int asked = 0;
  options.stopped = [&asked] { return ++asked > 12; };
  EXPECT_NE(error_of(options).find("stopped"), std::string::npos);
  EXPECT_GT(asked, 12);
  EXPECT_FALSE(fs::exists(options.folder));
  EXPECT_FALSE(fs::exists(folder / "made-dflash"));
  // The same of a folder with an older model.
  fs::create_directory(options.folder);
  folder.write("made/model.safetensors", "old");
  options.force = true;
  asked = 0;
  EXPECT_NE(error_of(options).find("stopped"), std::string::npos);
  EXPECT_EQ(files_of(options.folder), (std::map<std::string, std::string>{{"model.safetensors", "old"}}));
  options.stopped = nullptr;
  EXPECT_EQ(error_of(options), "");
  EXPECT_FALSE(fs::exists(options.folder / "model.safetensors"));
  EXPECT_FALSE(fs::exists(options.folder / ".ashlar-new"));
  EXPECT_FALSE(Checkpoint(options.folder).tensors().empty());
}

}  // namespace
}  // namespace ashlar
