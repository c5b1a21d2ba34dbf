// SPDX-License-Identifier: Apache-2.0
// What a config must say of a head that remembers the block's tokens, and what its checkpoint must hold.

#include "unit/model/head_json.h"

namespace ashlar::testing {
namespace {

Json domino(const std::string& patch = "{}") {
  Json config = with_head();
  config["architectures"] = {"DominoDraftModel"};
  config["dflash_config"] = patched(
      parse_json(R"({"mask_token_id":19,"target_layer_ids":[0,1],"emb_dim":5,"gru_hidden_dim":6})", "domino"), patch);
  return config;
}

TEST(DominoHead, IsWhatItsConfigSays) {
  const DflashConfig config = read(domino(R"({"projector_type":"domino"})"));
  EXPECT_EQ(config.head, "domino");
  EXPECT_EQ(read(domino()).head, "domino");
  ASSERT_TRUE(config.domino && config.in_turn());
  EXPECT_EQ(config.domino->width, 5);
  EXPECT_EQ(config.domino->state, 6);
  EXPECT_EQ(config.domino->pure, 0);
  EXPECT_EQ(config.max_width(), 4);
  const DflashConfig shifted = read(domino(R"({"shift_label":true,"pure_draft_prefix_len":1})"));
  EXPECT_EQ(shifted.domino->pure, 1);
  EXPECT_EQ(shifted.max_width(), 5);  // each slot predicts what follows it
  // The speculators form has words of its own.
  const DflashConfig in_speculators = read(speculators(R"({"speculators_model_type":"domino","gru_hidden_dim":6,
    "logits_correction_emb_dim":5,"pure_draft_prefix_len":2,"sample_from_anchor":true})"));
  EXPECT_EQ(in_speculators.domino->width, 5);
  EXPECT_EQ(in_speculators.domino->pure, 2);
  EXPECT_TRUE(in_speculators.sample_from_anchor);
  // What its configuration leaves out has values there.
  const DflashConfig bare = read(speculators(R"({"speculators_model_type":"domino"})"));
  EXPECT_EQ(bare.domino->width, 256);
  EXPECT_EQ(bare.domino->state, 1024);
  EXPECT_EQ(bare.domino->pure, 1);
  EXPECT_TRUE(bare.sample_from_anchor);
  const DflashConfig said =
      read(speculators(R"({"speculators_model_type":"domino","pure_draft_prefix_len":0,"sample_from_anchor":false})"));
  EXPECT_EQ(said.domino->pure, 0);
  EXPECT_FALSE(said.sample_from_anchor);

  for (const char* key : {"emb_dim", "gru_hidden_dim"}) {
    refuse(domino("{\"" + std::string(key) + "\":\"<absent>\"}"), {key, "found nothing"});
    refuse(domino("{\"" + std::string(key) + "\":0}"), {key, "found 0"});
    refuse(domino("{\"" + std::string(key) + "\":\"2\"}"), {key, "an integer"});
  }
  refuse(domino(R"({"pure_draft_prefix_len":4})"), {"pure_draft_prefix_len", "0 to 3"});
  refuse(domino(R"({"shift_label":3})"), {"shift_label"});
  refuse(domino(R"({"output_multiplier":0.5})"), {"output_multiplier", "1, with this head"});
}

class DominoLoading : public HeadLoading {};

TEST_F(DominoLoading, TakesAWholeCheckpointAndNoOther) {
  const auto whole = [](const std::string& part) {
    Tensors result = backbone();
    add_random(result, part + "prefix_gru.weight_ih_l0", {18, 8});
    add_random(result, part + "prefix_gru.weight_hh_l0", {18, 6});
    add_random(result, part + "embed_proj.0.weight", {5, 14});
    add_random(result, part + "embed_proj.2.weight", {20, 5});
    return result;
  };
  for (const char* part : {"", "logit_head.", "logits_correction."}) EXPECT_NO_THROW(load(domino(), whole(part)));
  refuse_each(domino(), whole(""));
  Tensors biased = whole("");
  add_random(biased, "prefix_gru.bias_ih_l0", {18});
  expect_error([&] { load(domino(), biased); }, {"prefix_gru.bias_ih_l0", "no such tensor"});
}

}  // namespace
}  // namespace ashlar::testing
