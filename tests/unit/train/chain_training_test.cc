// SPDX-License-Identifier: Apache-2.0
// EAGLE-3 heads and MTP layers as the trainer begins, writes and resumes them: which forms it takes, and that what is
// written reads back.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>

#include "base/error.h"
#include "decode/registry.h"
#include "temp_folder.h"
#include "train/data/frequent_tokens.h"
#include "train/eagle3/eagle3_drafter.h"
#include "train/export/drafter_folder.h"
#include "train/mtp/mtp_drafter.h"
#include "train/run/served_evaluation.h"
#include "unit/train/tiny_training.h"

namespace ashlar {
namespace {

namespace fs = std::filesystem;

TEST_F(DrafterTraining, RefusesEagle3HeadsThatAreNotTrained) {
  const Eagle3Config plain = design_eagle3(model_->config(), {});
  EXPECT_NO_THROW(check_trainable(plain));
  for (const auto& change : std::vector<std::function<void(Eagle3Config&)>>{
           [](Eagle3Config& c) { c.stack.n_layers = 2; }, [](Eagle3Config& c) { c.mask_id = 3; },
           [](Eagle3Config& c) { c.normed_residual = true; }, [](Eagle3Config& c) { c.stack.qkv_bias = true; }}) {
    Eagle3Config changed = plain;
    change(changed);
    EXPECT_THROW(check_trainable(changed), Error);
  }
  const TrainedDrafter head = eagle3_drafter(plain);
  EXPECT_THROW(head.exported(DrafterForm::kSpeculators, *model_, head.shape), Error);
  DrafterWishes wishes;
  wishes.draft_vocab = model_->config().vocab + 1;
  EXPECT_THROW(design_eagle3(model_->config(), wishes), Error);
}

// A head that drafts some tokens says which, in its folder, and is trained on from there.
TEST_F(DrafterTraining, ReadsDraftVocabulariesBack) {
  const TempFolder folder;
  DrafterWishes wishes;
  wishes.draft_vocab = 30;
  const int32_t vocab = model_->config().vocab;
  const std::vector<int32_t> ids = frequent_tokens(documents_, vocab, 30);
  const TrainedDrafter head = eagle3_drafter(design_eagle3(model_->config(), wishes), ids);
  TrainOptions options;
  options.steps = 2;
  options.output = folder / "d";
  TrainRun(*model_, documents_, head, options, drafter_training(*model_, "cpu", {})).save();
  Eagle3Config read = read_eagle3_config(folder / "d");
  fit_to_target(read, model_->config());
  EXPECT_EQ(read.draft_vocab, 30);
  EXPECT_EQ(read_draft_ids(read), ids);
  const SafetensorsFile file(folder / "d" / "model.safetensors");
  const StoredTensor& among = file.tensors().at("t2d");
  ASSERT_EQ(among.bytes, static_cast<size_t>(vocab));
  for (int32_t id = 0; id < vocab; ++id) {
    EXPECT_EQ(std::to_integer<int>(among.data[id]), std::ranges::binary_search(ids, id) ? 1 : 0) << id;
  }
  const auto start_from = [&](std::vector<int32_t> of) {
    TrainRun run(*model_, documents_, eagle3_drafter(read, std::move(of)), options,
                 drafter_training(*model_, "cpu", {}));
    run.start_from(folder / "d");
  };
  EXPECT_NO_THROW(start_from(ids));
  std::vector<int32_t> others = ids;
  --others.front();
  EXPECT_THROW(start_from(others), Error);  // the head has other rows
}

TEST_F(DrafterTraining, Eagle3HeadsReadThreeLayersOfAnyTargetThatHasThem) {
  ModelConfig target = model_->config();
  for (int32_t n = 3; n <= 12; ++n) {
    target.stack.n_layers = n;
    const std::vector<int32_t> layers = design_eagle3(target, {}).aux_layers;
    EXPECT_EQ(layers.size(), 3U) << n;
    EXPECT_EQ(std::ranges::adjacent_find(layers, std::greater_equal()), layers.end()) << n;
    EXPECT_TRUE(layers.front() >= 0 && layers.back() < n) << n;
  }
}

// What is written says what was designed.
TEST_F(DrafterTraining, WritesEagle3ConfigsThatReadBack) {
  const TempFolder folder;
  const Eagle3Config designed = design_eagle3(
      model_->config(), {.layers = 1, .block_size = 5, .aux_layers = {}, .mask_id = {}, .head = {}, .draft_vocab = 0});
  const Json config = specforge_config(designed);
  write_drafter_folder(folder / "d", config, {});
  // Others' readers fail without the first, and read beyond their tables without the second.
  EXPECT_TRUE(config.contains("draft_vocab_size") && config["draft_vocab_size"].is_null());
  EXPECT_EQ(config["max_position_embeddings"], model_->config().max_positions);
  EXPECT_EQ(config["block_size"], 5);
  EXPECT_TRUE(is_eagle3_folder(folder / "d"));
  Eagle3Config read = read_eagle3_config(folder / "d");
  fit_to_target(read, model_->config());
  EXPECT_NO_THROW(check_trainable(read));
  EXPECT_EQ(specforge_config(read), specforge_config(designed));
}

/// A target that brings a layer to draft, gated and with norms that are stored from one.
class TrainingOfOwnLayer : public DrafterTraining {
 protected:
  TrainingOfOwnLayer() : DrafterTraining("qwen3_5_text", "mtp_fitted") {}
  TrainedDrafter trained() const override { return mtp_drafter(design_mtp(model_->config(), {}), model_->config()); }
};

// It is not replaced by a new one without a word.
TEST_F(TrainingOfOwnLayer, AnUnknownFormIsRefused) {
  ModelConfig target = model_->config();
  target.mtp.own_vocabulary = true;
  EXPECT_THROW(design_mtp(target, {}), Error);
}

// What is written before the first step is what the target brought, and drafts as that does.
TEST_F(TrainingOfOwnLayer, BeginsWithWhatTheTargetBrings) {
  const TempFolder folder;
  TrainRun run = make(folder / "d", 3);
  EXPECT_EQ(trained().start, target_folder());
  run.start_from(trained().start);
  run.save();
  const SafetensorsFile written(folder / "d" / "model.safetensors");
  const Checkpoint target(target_folder());
  for (const auto& [name, tensor] : written.tensors()) {
    ASSERT_TRUE(target.tensors().contains(name)) << name;
    const StoredTensor& brought = *target.tensors().at(name);
    ASSERT_EQ(brought.dtype, "BF16") << name;
    EXPECT_EQ(std::memcmp(tensor.data, brought.data, tensor.bytes), 0) << name;
  }
  const auto served = [&](const fs::path& drafter) {
    DecoderSpec spec;
    spec.method = method_of_drafter(drafter);
    spec.drafter = drafter;
    spec.dflash.width = 4;  // or what steps cost decides
    spec.dflash.branches = 0;
    spec.ngram = NgramUse::kNever;
    Engine engine(*ops_, make_decoder(*model_, spec), {});
    return evaluate_as_served(engine, documents_, documents_.held_out(), {}, 24).acceptance;
  };
  const AcceptanceTally own = served(target_folder()), other = served(folder / "d");
  EXPECT_GT(own.drafted(), 0);
  EXPECT_EQ(other.drafted(), own.drafted());
  EXPECT_EQ(other.unconditional(), own.unconditional());
}

class TrainingOfSomeTokens : public DrafterTraining {
 protected:
  TrainedDrafter trained() const override {
    DrafterWishes wishes;
    wishes.draft_vocab = 72;
    std::vector<int32_t> ids(72);
    std::iota(ids.begin(), ids.end(), first_);
    return eagle3_drafter(design_eagle3(model_->config(), wishes), ids);
  }
  int32_t first_ = 0;
};

TEST_F(TrainingOfSomeTokens, ResumesWithTheSameTokensOnly) {
  const TempFolder folder;
  make(folder / "d", 3).save();
  EXPECT_NO_THROW(make(folder / "d", 3).resume());
  first_ = 1;
  EXPECT_THROW(make(folder / "d", 3).resume(), Error);
}

}  // namespace
}  // namespace ashlar
