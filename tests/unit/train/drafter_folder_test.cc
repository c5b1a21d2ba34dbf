// SPDX-License-Identifier: Apache-2.0
// Drafters that training designs and writes, as the existing readers of drafters see them.

#include "train/export/drafter_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/bf16.h"
#include "base/error.h"
#include "device/device.h"
#include "golden/golden_data.h"
#include "model/drafters/dflash.h"
#include "model/drafters/head_config.h"
#include "temp_folder.h"
#include "train/export/drafter_form.h"
#include "train/export/speculators_config.h"
#include "train/run/drafter_design.h"
#include "train/run/train_state.h"

namespace ashlar {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

fs::path pebble() { return testing::models_folder() / "pebble-11m"; }
fs::path pebble_drafter() { return testing::models_folder() / "pebble-11m-dflash"; }

// As Python's round() has them: round(1 + i * (N - 4) / 4) for i from 0 to 4.
TEST(DrafterDesign, AuxLayersAreThePublishedOnes) {
  EXPECT_THAT(default_aux_layers(36), ElementsAre(1, 9, 17, 25, 33));
  EXPECT_THAT(default_aux_layers(12), ElementsAre(1, 3, 5, 7, 9));
  EXPECT_THAT(default_aux_layers(28), ElementsAre(1, 7, 13, 19, 25));
  EXPECT_THAT(default_aux_layers(30), ElementsAre(1, 8, 14, 20, 27));  // 7.5 becomes 8, 14, 20.5 becomes 20
  EXPECT_THAT(default_aux_layers(40, 8), ElementsAre(1, 6, 11, 16, 22, 27, 32, 37));
  EXPECT_THAT(default_aux_layers(5), ElementsAre(1, 2));
  EXPECT_THAT(default_aux_layers(4), ElementsAre(2));
  EXPECT_THAT(default_aux_layers(1), ElementsAre(0));
}

TEST(DrafterDesign, FollowsTheTarget) {
  EXPECT_EQ(default_drafter_layers(2), 1);
  EXPECT_EQ(default_drafter_layers(12), 2);
  EXPECT_EQ(default_drafter_layers(30), 5);
  EXPECT_EQ(default_drafter_layers(80), 5);
  const ModelConfig target = read_model_config(pebble());
  const DflashConfig drafter = design_drafter(target, {}, 3);
  check_fit(drafter, target);
  check_trainable(drafter);
  EXPECT_EQ(drafter.stack.n_layers, 2);
  DrafterWishes wishes;
  const auto refusal = [&](int32_t mask) {
    try {
      design_drafter(target, wishes, mask);
      return std::string("taken");
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  EXPECT_THAT(refusal(8192), HasSubstr("--mask-token is 8192; the model has 8192 tokens"));
  wishes.aux_layers = {3, 12};
  EXPECT_THAT(refusal(3), HasSubstr("--aux-layers names layer 12"));
  wishes = {};
  wishes.block_size = 65;
  EXPECT_THAT(refusal(3), HasSubstr("--block-size is 65; expected 2 to 64"));
}

TEST(DrafterDesign, FindsATokenThatNoTextBecomes) {
  const Tokenizer tokenizer = Tokenizer::from_model(pebble());
  EXPECT_EQ(find_mask_token(tokenizer, 8192, {2}), 3);
  const auto made = [](const std::string& added) {
    return Tokenizer::from_json(
        R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[]},"added_tokens":[)" + added + "]}", "test");
  };
  const auto token = [](int id, const std::string& text) {
    return R"({"id":)" + std::to_string(id) + R"(,"content":")" + text + R"(","special":true,"single_word":false,)" +
           R"("lstrip":false,"rstrip":false,"normalized":false})";
  };
  const Tokenizer plain = made(token(1, "<end>") + "," + token(2, "<unused>"));
  EXPECT_EQ(find_mask_token(plain, 10, {1}), 3);  // the model has it, the tokenizer has not
  EXPECT_EQ(find_mask_token(plain, 3, {1}), 2);
  EXPECT_EQ(find_mask_token(plain, 3, {2}), 1);
  EXPECT_THROW(find_mask_token(plain, 3, {1, 2}), Error);
}

// The bundled drafter's own file, which PyTorch's side wrote, says what ours would say.
TEST(DrafterFolder, SaysWhatTheBundledDrafterSays) {
  const Json bundled = read_json_file(pebble_drafter() / "config.json");
  const Json ours = zlab_config(read_dflash_config(pebble_drafter()));
  for (const auto& [key, value] : bundled.items()) EXPECT_EQ(ours.value(key, Json()), value) << key;
  EXPECT_EQ(ours.size(), bundled.size());
  EXPECT_EQ(zlab_config(design_drafter(read_model_config(pebble()), {}, 3)), ours);
}

// With another head the file says more, and reading it gives the same again.
TEST(DrafterFolder, SaysWhichHead) {
  const TempFolder folder;
  DflashConfig designed = design_drafter(read_model_config(pebble()), {}, 3);
  add_head("dflash2", designed);
  write_drafter_folder(folder / "d", zlab_config(designed), {});
  const DflashConfig read = read_dflash_config(folder / "d");
  check_trainable(read);
  EXPECT_EQ(zlab_config(read), zlab_config(designed));
  EXPECT_EQ(zlab_config(read)["architectures"], Json({"DFlash2DraftModel"}));
  EXPECT_EQ(zlab_config(read)["dflash_config"]["block_size"], 16);
  EXPECT_EQ(read.head, "dflash2");
  EXPECT_EQ(read.stack.block_conv->taps, 2);
  EXPECT_EQ(read.stack.block_conv->group, 16);
  EXPECT_EQ(read.selector->rank, std::min(256, read.stack.hidden));
  EXPECT_EQ(read.selector->top_k, 16);
  DflashConfig rated = design_drafter(read_model_config(pebble()), {}, 3);
  add_head("dspark", rated);
  const ModelConfig target = read_model_config(pebble());
  for (const Json& form : {zlab_config(rated), speculators_config(rated, target)}) {
    write_drafter_folder(folder / "rated", form, {});
    const DflashConfig again = with_target_vocabulary(read_dflash_config(folder / "rated"), target);
    check_trainable(again);
    EXPECT_EQ(zlab_config(again), zlab_config(rated));
    EXPECT_EQ(again.markov->rank, std::min(256, again.stack.hidden));
    EXPECT_EQ(again.markov->confidence_width, again.stack.hidden + again.markov->rank);
    EXPECT_FALSE(again.markov->gated);
    EXPECT_FALSE(again.sample_from_anchor);  // what the key's absence would mean
  }
  EXPECT_EQ(zlab_config(rated)["architectures"], Json({"Qwen3DSparkModel"}));
  EXPECT_EQ(speculators_config(rated, target)["architectures"], Json({"DSparkSpeculator"}));
  rated.sample_from_anchor = true;
  EXPECT_THAT([&] { check_trainable(rated); }, ThrowsMessage<Error>(HasSubstr("sample_from_anchor")));
  rated.sample_from_anchor = false;
  rated.markov->gated = true;
  EXPECT_THROW(check_trainable(rated), Error);
  // A plain drafter may get that head, another one keeps what it has.
  DflashConfig plain = read_dflash_config(pebble_drafter());
  add_head("dflash2", plain);
  EXPECT_EQ(zlab_config(plain), zlab_config(designed));
  EXPECT_THROW(add_head("dflash", plain), Error);
  EXPECT_THROW(add_head("dspark", plain), Error);
  EXPECT_THROW(add_head("none", plain), Error);
}

// What layers see is said in either form as it is read again.
TEST(DrafterFolder, SaysWhatLayersSee) {
  struct Case {
    std::vector<std::pair<int32_t, bool>> layers;  // window, causal
    Json is_causal;
  };
  const Case cases[] = {{{{32, false}, {32, false}}, false}, {{{32, true}, {32, true}}, {}},
                        {{{32, true}, {0, false}}, {}},      {{{32, false}, {0, false}}, false},
                        {{{32, true}, {0, true}}, true},     {{{0, true}, {0, true}}, true},
                        {{{0, false}, {0, false}}, {}}};
  const ModelConfig target = read_model_config(pebble());
  for (const Case& c : cases) {
    SCOPED_TRACE(::testing::PrintToString(c.layers));
    DrafterWishes wishes;
    wishes.layers = 2;
    DflashConfig designed = design_drafter(target, wishes, 3);
    for (size_t i = 0; i < 2; ++i) {
      std::tie(designed.stack.layers[i].window, designed.stack.layers[i].causal) = c.layers[i];
    }
    const TempFolder folder;
    write_drafter_folder(folder / "d", zlab_config(designed), {});
    const DflashConfig read = read_dflash_config(folder / "d");
    check_trainable(read);
    EXPECT_EQ(read.stack.layers, designed.stack.layers);
    EXPECT_EQ(zlab_config(read).value("is_causal", Json()), c.is_causal);
    const bool is_sayable = std::ranges::none_of(c.layers, [](const auto& l) { return l.first == 0 && l.second; });
    if (!is_sayable) {
      EXPECT_THROW(speculators_config(designed, target), Error);
      continue;
    }
    write_drafter_folder(folder / "s", speculators_config(designed, target), {});
    EXPECT_EQ(read_dflash_config(folder / "s").stack.layers, designed.stack.layers);
  }
  DrafterWishes narrow;
  narrow.window = 15;
  EXPECT_THROW(design_drafter(target, narrow, 3), Error);
  narrow.window = 16;
  EXPECT_EQ(design_drafter(target, narrow, 3).stack.layers.front().window, 16);
}

struct Arrays {
  std::vector<std::string> names;
  std::vector<std::vector<int64_t>> shapes;
  std::vector<std::vector<float>> values, first, second;
  std::vector<TrainParameter> tensors() {
    std::vector<TrainParameter> out;
    for (size_t i = 0; i < names.size(); ++i) out.push_back({names[i], shapes[i], values[i], {}, first[i], second[i]});
    return out;
  }
};

// Room for every tensor of the bundled drafter.
Arrays arrays_of(const fs::path& folder) {
  Arrays out;
  const SafetensorsFile file(folder / "model.safetensors");
  for (const auto& [name, tensor] : file.tensors()) {
    out.names.push_back(name);
    out.shapes.push_back(tensor.shape);
    for (auto* list : {&out.values, &out.first, &out.second}) list->emplace_back(tensor.bytes / 2, -7.0F);
  }
  return out;
}

TEST(DrafterFolder, WhatWasReadIsWrittenAgainToTheBit) {
  const TempFolder folder;
  const fs::path copy = folder / "new" / "drafter";
  Arrays arrays = arrays_of(pebble_drafter());
  load_drafter_weights(pebble_drafter(), arrays.tensors());
  const Json config = zlab_config(read_dflash_config(pebble_drafter()));
  write_drafter_folder(copy, config, values_of(arrays.tensors()));
  write_drafter_folder(copy, config, values_of(arrays.tensors()));  // over the first
  const SafetensorsFile old(pebble_drafter() / "model.safetensors"), fresh(copy / "model.safetensors");
  ASSERT_EQ(old.tensors().size(), fresh.tensors().size());
  for (const auto& [name, tensor] : old.tensors()) {
    const StoredTensor& other = fresh.tensors().at(name);
    EXPECT_EQ(other.describe(), tensor.describe()) << name;
    EXPECT_EQ(std::memcmp(other.data, tensor.data, tensor.bytes), 0) << name;
  }
  const std::unique_ptr<Ops> ops = make_device("cpu", {});
  const std::unique_ptr<Model> model = Model::load(*ops, pebble(), 64);
  EXPECT_EQ(DflashDrafter::load(*model, copy)->config().aux_layers.size(), 5u);
}

TEST(DrafterFolder, NamesATensorThatIsMissingOrAnother) {
  Arrays arrays = arrays_of(pebble_drafter());
  const auto message = [&] {
    try {
      load_drafter_weights(pebble_drafter(), arrays.tensors());
      return std::string("taken");
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  arrays.names[0] = "nosuch";
  EXPECT_THAT(message(), HasSubstr("pebble-11m-dflash: has no tensor nosuch"));
  arrays = arrays_of(pebble_drafter());
  arrays.shapes[0] = {5};
  EXPECT_THAT(message(), HasSubstr("expected [5]"));
}

// What a plain drafter has nothing of keeps its first values, unless it has some of it.
TEST(DrafterFolder, HeadsMayStartWithoutWeights) {
  Arrays arrays = arrays_of(pebble_drafter());
  std::vector<TrainParameter> tensors = arrays.tensors();
  std::vector<float> head(3, 5.0F);
  TrainParameter added = {"layers.0.mlp_conv.base_kernel", {3}, head, {}, {}, {}};
  added.is_of_head = true;
  tensors.push_back(added);
  load_drafter_weights(pebble_drafter(), tensors);
  EXPECT_THAT(head, ElementsAre(5, 5, 5));
  EXPECT_NE(arrays.values[0][0], -7.0F);
  tensors[0].is_of_head = true;
  EXPECT_THROW(load_drafter_weights(pebble_drafter(), tensors), Error);
}

TEST(CheckTrainable, RefusesWhatIsNotTrained) {
  const char* const kOthers[] = {"dflash_bias", "dflash_noncausal_sliding", "dflash_scaled", "dflash_sliding",
                                 "speculators", "speculators_anchor",       "dflash2",       "speculators_dflash2",
                                 "dspark",      "speculators_dspark",       "lilicorr",      "domino"};
  for (const char* name : kOthers) {
    EXPECT_THROW(check_trainable(read_dflash_config(testing::data_folder() / "drafters" / name)), Error) << name;
  }
  for (const char* name : {"dflash_full", "dflash2_projector"}) {
    check_trainable(read_dflash_config(testing::data_folder() / "drafters" / name));
  }
}

}  // namespace
}  // namespace ashlar
