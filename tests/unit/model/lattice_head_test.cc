// SPDX-License-Identifier: Apache-2.0
// What a config must say of a head that scores a lattice of candidates, and what its checkpoint must hold.

#include <algorithm>

#include "model/drafters/drafter_repairs.h"
#include "unit/model/head_json.h"

namespace ashlar::testing {
namespace {

class LatticeLoading : public HeadLoading {};

TEST(LatticeHead, IsWhatItsConfigSays) {
  const DflashConfig config = read(lilicorr(R"({"projector_type":"lilicorr"})"));
  ASSERT_TRUE(config.lattice);
  EXPECT_EQ(config.lattice->top_k, 5);
  EXPECT_EQ(config.lattice->hidden, 6);
  EXPECT_EQ(config.lattice->layers, 2);
  EXPECT_EQ(config.lattice->heads, 2);
  EXPECT_EQ(config.lattice->inner, 9);
  EXPECT_EQ(config.lattice->factor, 7);
  EXPECT_FLOAT_EQ(config.lattice->vector_eps, 1e-4F);
  EXPECT_FLOAT_EQ(config.lattice->logit_scale, 8);
  EXPECT_FALSE(config.stack.block_conv || config.selector || config.may_own_vocabulary);
  // As wide as the drafter where nothing else is said.
  for (const char* width : {"0", "\"<absent>\""}) {
    EXPECT_EQ(read(lilicorr(R"({"lilicorr_hidden_size":)" + std::string(width) + "}")).lattice->hidden, 8);
  }
  EXPECT_FALSE(read(lilicorr(R"({"conv_kernel_size":0,"conv_group_size":0})")).stack.block_conv);
  EXPECT_EQ(read(lilicorr(R"({"conv_kernel_size":2,"conv_group_size":4})")).stack.block_conv->group, 4);

  refuse(lilicorr(R"({"conv_kernel_size":2})"), {"conv_group_size", "found nothing"});
  refuse(lilicorr(R"({"conv_group_size":4})"), {"conv_kernel_size", "found nothing"});
  for (const char* key :
       {"candidate_topk", "num_layers", "num_heads", "mlp_ratio", "factor_dim", "vector_eps", "logit_scale"}) {
    const std::string name = std::string("lilicorr_") + key;
    refuse(lilicorr("{\"" + name + "\":\"<absent>\"}"), {name, "found nothing"});
    refuse(lilicorr("{\"" + name + "\":0}"), {name});
    refuse(lilicorr("{\"" + name + "\":\"2\"}"), {name});
  }
  refuse(lilicorr(R"({"lilicorr_enabled":false})"), {"lilicorr_enabled", "true"});
  refuse(lilicorr(R"({"lilicorr_candidate_topk":21})"), {"lilicorr_candidate_topk", "1 to 20"});
  refuse(lilicorr(R"({"lilicorr_num_heads":4})"), {"lilicorr_num_heads", "a divisor", "6"});
  refuse(lilicorr(R"({"lilicorr_hidden_size":100000})"), {"lilicorr_hidden_size", "1 to 16384"});
  refuse(lilicorr(R"({"output_multiplier":0.5})"), {"output_multiplier", "1, with this head"});
  refuse(lilicorr(R"({"sample_from_anchor":true})"), {"sample_from_anchor", "false, with this head"});
  refuse(lilicorr(R"({"draft_vocab_size":19})"), {"draft_vocab_size", "20"});
}

// As wide as the drafter, or not: then embeddings are projected.
TEST_F(LatticeLoading, TakesAWholeCheckpointAndNoOther) {
  const auto whole = [](int64_t hidden) {
    Tensors result = backbone();
    const auto linear = [&](const std::string& name, int64_t rows, int64_t cols) {
      add_random(result, "lilicorr." + name + ".weight", {rows, cols});
      add_random(result, "lilicorr." + name + ".bias", {rows});
    };
    const int64_t inner = hidden + hidden / 2;
    if (hidden != 8) linear("token_proj", hidden, 8);
    linear("pass_hidden_proj", hidden, 8);
    add_random(result, "lilicorr.feature_mlp.0.weight", {5});
    add_random(result, "lilicorr.feature_mlp.0.bias", {5});
    linear("feature_mlp.1", hidden, 5);
    linear("feature_mlp.3", hidden, hidden);
    add_random(result, "lilicorr.slot_embedding", {1, 1, 3, 1, hidden});
    add_random(result, "lilicorr.rank_embedding", {1, 1, 1, 5, hidden});
    add_random(result, "lilicorr.relative_slot_bias", {2, 7});
    add_random(result, "lilicorr.same_slot_bias", {2});
    linear("context_proj", hidden, 8);
    for (const std::string layer : {"layers.0.", "layers.1."}) {
      add_random(result, "lilicorr." + layer + "attn_norm.weight", {hidden});
      add_random(result, "lilicorr." + layer + "mlp_norm.weight", {hidden});
      add_random(result, "lilicorr." + layer + "attn.in_proj_weight", {3 * hidden, hidden});
      add_random(result, "lilicorr." + layer + "attn.in_proj_bias", {3 * hidden});
      linear(layer + "attn.out_proj", hidden, hidden);
      linear(layer + "mlp.0", inner, hidden);
      linear(layer + "mlp.2", hidden, inner);
    }
    add_random(result, "lilicorr.output_norm.weight", {hidden});
    add_random(result, "lilicorr.anchor_norm.weight", {hidden});
    linear("factor_input_proj", hidden, 3 * hidden);
    for (const std::string name : {"out_head", "in_head", "anchor_out_head"}) linear(name, 7, hidden);
    return result;
  };
  EXPECT_NO_THROW(load(lilicorr(R"({"lilicorr_hidden_size":0})"), whole(8)));
  EXPECT_NO_THROW(load(lilicorr(), whole(6)));
  Tensors prefixed;
  for (const auto& [name, tensor] : whole(6)) add_random(prefixed, "model." + name, tensor.shape);
  EXPECT_NO_THROW(load(lilicorr(), prefixed));
  refuse_each(lilicorr(), whole(6));
  Tensors more = whole(6);
  add_random(more, "lilicorr.layers.2.attn_norm.weight", {6});
  expect_error([&] { load(lilicorr(), more); }, {"lilicorr.layers.2.attn_norm.weight", "no such tensor"});
}

// What the self-test tries anew where few drafts are accepted: never what the head has no places for.
TEST_F(LatticeLoading, IsMadeForOneConventionOfSlots) {
  const auto other_slots = [this](const DflashConfig& config) {
    return std::ranges::any_of(usual_repairs(config, model_->config(), {}), [&](const auto& repair) {
      return repair.config.sample_from_anchor != config.sample_from_anchor;
    });
  };
  EXPECT_TRUE(other_slots(read(with_head())));
  EXPECT_FALSE(other_slots(read(lilicorr())));
}

}  // namespace
}  // namespace ashlar::testing
