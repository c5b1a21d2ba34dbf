// SPDX-License-Identifier: Apache-2.0
// What a run reads and writes besides its state: hidden states on the disk, drafters to begin from, and the forms of
// the folder.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "base/error.h"
#include "device/device.h"
#include "golden/direct_decoding.h"
#include "temp_folder.h"
#include "train/export/drafter_folder.h"
#include "train/run/capture_run.h"
#include "unit/train/noisy_trainer.h"

namespace ashlar {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// A copy of a model folder whose weights are fp32.
fs::path rounded_to_bf16(const fs::path& from, const fs::path& to) {
  fs::copy(from, to, fs::copy_options::recursive);
  const Checkpoint checkpoint(from);
  std::vector<std::vector<float>> values;
  std::vector<TensorToWrite> tensors;
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    EXPECT_EQ(tensor->dtype, "F32");
    values.emplace_back(tensor->bytes / sizeof(float));
    std::memcpy(values.back().data(), tensor->data, tensor->bytes);
    tensors.push_back({name, tensor->shape, values.back(), TensorToWrite::Type::kBF16});
  }
  write_safetensors(to / "model.safetensors", tensors);
  return to;
}

// From the disk, computed, or some of both: the same weights to the bit.
TEST_F(TrainRunning, HiddenStatesMayComeFromTheDisk) {
  const TempFolder folder;
  for (const auto& loss : {std::optional<DistributionLoss>(), std::optional(DistributionLoss::kKl)}) {
    const std::string name = loss ? "kl" : "ce";
    TrainOptions computed = options(folder / (name + "-computed"));
    computed.distribution = loss;
    EXPECT_TRUE(make(computed).run(quiet_, kNever));
    TrainOptions stored = computed;
    stored.output = folder / (name + "-stored");
    stored.hidden_states = folder / (name + "-states");
    const HiddenStore store(stored.hidden_states, hidden_layout(block_drafter(drafter_), model_->config(), stored));
    capture_documents(*model_, documents_, store, 64, [](int64_t) { return true; });
    EXPECT_TRUE(make(stored).run(quiet_, kNever));
    EXPECT_EQ(bytes(stored.output / TrainRun::kState), bytes(computed.output / TrainRun::kState)) << name;
    for (const size_t document : {3, 4, 11, 20, 21, 22}) fs::remove(store.path_of(document));
    stored.output = folder / (name + "-mixed");
    EXPECT_TRUE(make(stored).run(quiet_, kNever));
    EXPECT_EQ(bytes(stored.output / TrainRun::kState), bytes(computed.output / TrainRun::kState)) << name;
  }
  // What is there is used: other numbers make other weights.
  TrainOptions stored = options(folder / "other");
  stored.hidden_states = folder / "ce-states";
  const HiddenLayout layout = hidden_layout(block_drafter(drafter_), model_->config(), stored);
  const HiddenStore store(stored.hidden_states, layout);
  const auto ids = documents_.ids(0);
  const std::vector<float> ones(ids.size() * static_cast<size_t>(layout.width() + layout.hidden), 1.0F);
  write_hidden_file(store.path_of(0), ids, documents_.supervised(0), layout, {ones, {}, DType::kF32});
  EXPECT_TRUE(make(stored).run(quiet_, kNever));
  EXPECT_NE(bytes(folder / "other" / TrainRun::kState), bytes(folder / "ce-computed" / TrainRun::kState));
}

TEST_F(TrainRunning, StartsFromTheWeightsOfADrafter) {
  const TempFolder folder;
  EXPECT_TRUE(make(options(folder / "a", 2)).run(quiet_, kNever));
  TrainRun fresh = make(options(folder / "b", 2));
  fresh.start_from(folder / "a");
  fresh.save();
  EXPECT_EQ(bytes(folder / "a" / "model.safetensors"), bytes(folder / "b" / "model.safetensors"));
  EXPECT_NE(bytes(folder / "a" / TrainRun::kState), bytes(folder / "b" / TrainRun::kState));
}

// The same drafts, and the same drafter to go on from; what the other form repeats must be this target's.
TEST_F(TrainRunning, TheSpeculatorsFormIsTheSameDrafter) {
  const TempFolder folder;
  TrainOptions parts = options(folder / "z", 2);
  EXPECT_TRUE(make(parts).run(quiet_, kNever));
  parts.output = folder / "s";
  parts.form = DrafterForm::kSpeculators;
  EXPECT_TRUE(make(parts).run(quiet_, kNever));
  EXPECT_EQ(bytes(folder / "z" / TrainRun::kState), bytes(folder / "s" / TrainRun::kState));

  const Json written = read_json_file(folder / "s" / "config.json");
  const Json reference = read_json_file(testing::data_folder() / "drafters" / "speculators" / "config.json");
  for (const char* part : {"", "/transformer_layer_config", "/speculators_config", "/speculators_config/verifier"}) {
    for (const auto& [key, value] : reference.at(Json::json_pointer(part)).items()) {
      EXPECT_EQ(written.at(Json::json_pointer(part)).value(key, Json("none")).type(), value.type()) << part << key;
    }
  }
  const DflashConfig read = read_dflash_config(folder / "s");
  EXPECT_EQ(read.aux_layers, drafter_.aux_layers);
  EXPECT_EQ(read.block_size, drafter_.block_size);
  EXPECT_EQ(read.stack.layers, drafter_.stack.layers);
  EXPECT_EQ(zlab_config(with_target_vocabulary(read, model_->config())), zlab_config(drafter_));

  // The form has bf16, so that a target in fp32 is another one; and the ref device has no head of 8 bits for drafts.
  const std::unique_ptr<Ops> ref = make_device("ref", {});
  const fs::path rounded = rounded_to_bf16(checkpoint_.folder(), folder / "rounded");
  const std::unique_ptr<Model> target = Model::load(*ref, rounded, 128);
  const auto prompt = documents_.ids(0);
  const auto drafts = [&](const fs::path& path) {
    const std::unique_ptr<DflashDrafter> drafter = DflashDrafter::load(*target, path);
    testing::DirectDecoder decoder(*target, drafter.get(), 128);
    return decoder.speculate({prompt.begin(), prompt.end()}, 24, {}, 16).drafted_ids;
  };
  EXPECT_GE(drafts(folder / "z").size(), 15U);
  EXPECT_EQ(drafts(folder / "s"), drafts(folder / "z"));

  TrainRun fresh = make(options(folder / "again", 2));
  fresh.start_from(folder / "s");
  fresh.save();
  EXPECT_EQ(bytes(folder / "again" / "model.safetensors"), bytes(folder / "z" / "model.safetensors"));
  std::string other = bytes(folder / "s" / "model.safetensors");
  other[other.size() - 1] ^= 1;  // of the head
  std::ofstream(folder / "s" / "model.safetensors", std::ios::binary) << other;
  try {
    fresh.start_from(folder / "s");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("lm_head.weight is not the target's (row 95 differs)"));
  }
}

}  // namespace
}  // namespace ashlar
