// SPDX-License-Identifier: Apache-2.0
// Which head a drafter has, what its config must say, and what its checkpoint must hold.

#include <algorithm>

#include "model/drafters/dflash_repairs.h"
#include "unit/model/head_json.h"

namespace ashlar::testing {
namespace {

// DeepSpec's form: all keys on one level.
Json flat(const std::string& patch = "{}") {
  return patched(patched(tiny_config(), R"({"architectures":["Qwen3DSparkModel"],"num_target_layers":2,"block_size":4,
    "num_hidden_layers":1,"mask_token_id":19,"target_layer_ids":[0,1],"markov_rank":3,"markov_head_type":"vanilla",
    "enable_confidence_head":true,"confidence_head_with_markov":true})"),
                 patch);
}

Json lilicorr(const std::string& patch = "{}") {
  Json config = with_head();
  config["architectures"] = {"LiLiCorrDraftModel"};
  config["dflash_config"] = patched(parse_json(R"({"mask_token_id":19,"target_layer_ids":[0,1],
    "lilicorr_enabled":true,"lilicorr_candidate_topk":5,"lilicorr_hidden_size":6,"lilicorr_num_layers":2,
    "lilicorr_num_heads":2,"lilicorr_mlp_ratio":1.5,"lilicorr_factor_dim":7,"lilicorr_vector_eps":1e-4,
    "lilicorr_logit_scale":8.0})",
                                               "lilicorr"),
                                    patch);
  return config;
}

TEST(DraftHeads, AreNamedByProjectorOrArchitecture) {
  EXPECT_EQ(read(with_head()).head, "dflash2");
  EXPECT_EQ(read(with_head(R"({"projector_type":"dflash2"})")).head, "dflash2");
  EXPECT_EQ(read(with_head(R"({"projector_type":"dflash"})")).head, "dflash");  // a projector is the more explicit
  Json plain = with_head();
  plain["architectures"] = {"DFlashDraftModel"};
  EXPECT_EQ(read(plain).head, "dflash");
  EXPECT_FALSE(read(plain).selector || read(plain).stack.block_conv);
  plain["projector_type"] = "dflash2";
  EXPECT_EQ(read(plain).head, "dflash2");
  plain.erase("architectures");
  EXPECT_EQ(read(plain).head, "dflash2");
  EXPECT_EQ(draft_heads().front(), "dflash");
  EXPECT_EQ(read(speculators()).head, "dflash2");
  EXPECT_EQ(read(lilicorr()).head, "lilicorr");
  EXPECT_EQ(read(flat()).head, "dspark");
  EXPECT_EQ(read(with_head(R"({"projector_type":"dspark","markov_rank":2,"markov_head_type":"gated"})")).head,
            "dspark");
  EXPECT_EQ(read(speculators(R"({"speculators_model_type":"dspark"})")).head, "dspark");
}

TEST(DraftHeads, OtherOnesAreRefusedWithTheNamesOfThoseThatAreKnown) {
  refuse(with_head(R"({"projector_type":"other"})"),
         {"projector_type", "other", "\"dflash\" or \"dflash2\" or \"dspark\" or \"lilicorr\" or \"domino\""});
  refuse(with_head(R"({"projector_type":3})"), {"projector_type", "a string"});
  refuse(speculators(R"({"speculators_model_type":"peagle"})"),
         {"speculators_model_type", "peagle", "\"dflash\"", "\"dflash2\""});
  // Which nobody has in this form.
  refuse(speculators(R"({"speculators_model_type":"lilicorr"})"), {"speculators_model_type", "lilicorr"});
}

TEST(DraftHeads, SayWhatConvolvesAndSelects) {
  const DflashConfig config = read(with_head());
  EXPECT_EQ(config.stack.block_conv->taps, 2);
  EXPECT_EQ(config.stack.block_conv->group, 4);
  EXPECT_EQ(config.selector->rank, 3);
  EXPECT_EQ(config.selector->top_k, 5);
  Json outside = with_head(R"({"selector_rank":"<absent>"})");
  outside["selector_rank"] = 7;
  EXPECT_EQ(read(outside).selector->rank, 7);

  const DflashConfig by_default = read(speculators());
  EXPECT_EQ(by_default.stack.block_conv->taps, 2);
  EXPECT_EQ(by_default.selector->rank, 256);
  EXPECT_EQ(by_default.selector->top_k, 16);
  EXPECT_FALSE(by_default.stack.layers[0].causal);
  EXPECT_TRUE(read(speculators(R"({"sliding_window_non_causal":false})")).stack.layers[0].causal);
  EXPECT_TRUE(read(speculators(R"({"speculators_model_type":"dflash"})")).stack.layers[0].causal);
}

TEST(DraftHeads, SayWhatTheTokenBeforeAdds) {
  const DflashConfig config = read(flat());
  EXPECT_EQ(config.markov->rank, 3);
  EXPECT_FALSE(config.markov->gated);
  EXPECT_EQ(config.markov->confidence_width, 8 + 3);
  EXPECT_EQ(config.max_width(), 5);  // each slot predicts what follows it
  EXPECT_EQ(read(flat(R"({"confidence_head_with_markov":false})")).markov->confidence_width, 8);
  EXPECT_EQ(read(flat(R"({"enable_confidence_head":false})")).markov->confidence_width, 0);
  EXPECT_TRUE(read(flat(R"({"markov_head_type":"gated"})")).markov->gated);

  const DflashConfig by_default = read(speculators(R"({"speculators_model_type":"dspark","draft_vocab_size":7})"));
  EXPECT_EQ(by_default.markov->rank, 256);
  EXPECT_EQ(by_default.markov->confidence_width, 8 + 256);
  EXPECT_TRUE(by_default.sample_from_anchor && by_default.stack.layers[0].causal);
  EXPECT_FALSE(
      read(speculators(R"({"speculators_model_type":"dspark","sample_from_anchor":false})")).sample_from_anchor);

  refuse(flat(R"({"markov_rank":0})"), {"markov_rank", "found 0"});
  refuse(flat(R"({"markov_rank":"<absent>"})"), {"markov_rank", "found nothing"});
  refuse(flat(R"({"markov_head_type":"rnn"})"), {"markov_head_type", "rnn", R"("vanilla" or "gated")"});
  refuse(flat(R"({"markov_head_type":"<absent>"})"), {"markov_head_type", "found nothing"});
  refuse(flat(R"({"markov_head_type":"gated","output_multiplier":0.5})"), {"output_multiplier", "gated"});
}

TEST(DraftHeads, SayWhatScoresALattice) {
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

TEST(DraftHeads, RefuseWhatTheyCannotCompute) {
  for (const char* key : {"conv_kernel_size", "conv_group_size", "selector_rank", "selector_top_k"}) {
    refuse(with_head("{\"" + std::string(key) + "\":\"<absent>\"}"), {key, "found nothing"});
    refuse(with_head("{\"" + std::string(key) + "\":0}"), {key, "found 0"});
    refuse(with_head("{\"" + std::string(key) + "\":\"2\"}"), {key, "an integer"});
  }
  refuse(with_head(R"({"conv_kernel_size":5})"), {"conv_kernel_size", "1 to 4"});
  refuse(with_head(R"({"conv_group_size":3})"), {"conv_group_size", "a divisor of the hidden size, 8"});
  refuse(with_head(R"({"selector_top_k":21})"), {"selector_top_k", "1 to 20"});
  refuse(with_head(R"({"selector_rank":100000})"), {"selector_rank", "1 to 16384"});
  refuse(with_head(R"({"output_multiplier":0})"), {"output_multiplier", "other than 0"});
  refuse(speculators(R"({"draft_vocab_size":19})"), {"draft_vocab_size", "20", "codes"});
  refuse(speculators(R"({"conv_group_size":5})"), {"conv_group_size"});
}

TEST_F(HeadLoading, TakesAWholeCheckpoint) {
  EXPECT_NO_THROW(load(with_head(), tensors()));
  Tensors prefixed, suffixed = tensors();
  for (const auto& [name, tensor] : tensors()) add_random(prefixed, "model." + name, tensor.shape);
  EXPECT_NO_THROW(load(with_head(), prefixed));
  for (const std::string name : {"candidate_selector.predecessor_codebook", "candidate_selector.successor_codebook"}) {
    suffixed.erase(name);
    add_random(suffixed, name + ".weight", {20, 3});
  }
  EXPECT_NO_THROW(load(with_head(), suffixed));
}

TEST_F(HeadLoading, RefusesEveryMissingOrMisshapenTensor) {
  for (const auto& [name, tensor] : tensors()) {
    if (name.find("conv") == std::string::npos && name.find("selector") == std::string::npos) continue;
    Tensors broken = tensors();
    broken.erase(name);
    refuse(broken, {name});
    std::vector<int64_t> shape = tensor.shape;
    ++shape.back();
    add_random(broken, name, shape);
    refuse(broken, {name, "expected"});
    std::swap(shape[0], shape[1]);
    broken.erase(name);
    add_random(broken, name, shape);
    refuse(broken, {name, "expected"});
  }
}

TEST_F(HeadLoading, TakesAndChecksWhatTheTokenBeforeAdds) {
  const Json gated = flat(R"({"markov_head_type":"gated"})");
  const auto whole = [] {
    Tensors result = backbone();
    add_random(result, "markov_head.markov_w1.weight", {20, 3});
    add_random(result, "markov_head.markov_w2.weight", {20, 3});
    add_random(result, "markov_head.gate_proj.weight", {3, 11});
    add_random(result, "markov_head.gate_proj.bias", {3});
    add_random(result, "confidence_head.proj.weight", {1, 11});
    add_random(result, "confidence_head.proj.bias", {1});
    return result;
  };
  EXPECT_NO_THROW(load(gated, whole()));
  Tensors own = whole();
  add_random(own, "embed_tokens.weight", {20, 8});
  add_random(own, "lm_head.weight", {20, 8});
  EXPECT_NO_THROW(load(gated, own));
  own.erase("lm_head.weight");
  expect_error([&] { load(gated, own); }, {"lm_head"});
  for (const auto& [name, tensor] : whole()) {
    if (name.find("_head.") == std::string::npos) continue;
    Tensors broken = whole();
    broken.erase(name);
    // Some have no bias there.
    if (name != "confidence_head.proj.bias") expect_error([&] { load(gated, broken); }, {name});
    std::vector<int64_t> shape = tensor.shape;
    ++shape.back();
    add_random(broken, name, shape);
    expect_error([&] { load(gated, broken); }, {name, "expected"});
  }
  expect_error([&] { load(flat(), whole()); }, {"gate_proj", "no such tensor"});
}

// As wide as the drafter, or not: then embeddings are projected.
TEST_F(HeadLoading, TakesAndChecksALattice) {
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
  for (const auto& [name, tensor] : whole(6)) {
    if (!name.starts_with("lilicorr.")) continue;
    Tensors broken = whole(6);
    broken.erase(name);
    expect_error([&] { load(lilicorr(), broken); }, {name});
    std::vector<int64_t> shape = tensor.shape;
    ++shape.back();
    add_random(broken, name, shape);
    expect_error([&] { load(lilicorr(), broken); }, {name, "expected"});
  }
  Tensors more = whole(6);
  add_random(more, "lilicorr.layers.2.attn_norm.weight", {6});
  expect_error([&] { load(lilicorr(), more); }, {"lilicorr.layers.2.attn_norm.weight", "no such tensor"});
}

// What the self-test tries anew where few drafts are accepted: never what the head has no places for.
TEST_F(HeadLoading, ALatticeIsMadeForOneConventionOfSlots) {
  const auto other_slots = [this](const DflashConfig& config) {
    return std::ranges::any_of(usual_repairs(config, model_->config(), {}), [&](const DflashRepair& repair) {
      return repair.config.sample_from_anchor != config.sample_from_anchor;
    });
  };
  EXPECT_TRUE(other_slots(read(with_head())));
  EXPECT_FALSE(other_slots(read(lilicorr())));
}

TEST_F(HeadLoading, APlainDrafterHasNoPlaceForThem) {
  Json plain = with_head();
  plain["architectures"] = {"DFlashDraftModel"};
  expect_error([&] { load(plain, tensors()); }, {"candidate_selector", "no such tensor"});
}

// Codes go by the target's ids.
TEST_F(HeadLoading, RefusesAnotherVocabularyOfItsOwn) {
  const auto own = [](int64_t offset) {
    Tensors result = tensors();
    for (const std::string name :
         {"candidate_selector.predecessor_codebook", "candidate_selector.successor_codebook"}) {
      add_random(result, name, {20, 256});
    }
    add_random(result, "candidate_selector.hidden_projection.weight", {256, 8});
    add_random(result, "embed_tokens.weight", {20, 8});
    add_random(result, "lm_head.weight", {20, 8});
    result["d2t"] = zeros("d2t", "I64", 8, {20});
    std::memcpy(result["d2t"].bytes.data(), &offset, sizeof(offset));
    return result;
  };
  EXPECT_NO_THROW(load(speculators(), own(0)));
  expect_error([&] { load(speculators(), own(1)); }, {"d2t", "entry 0", "token 1", "candidate selector"});
}

}  // namespace
}  // namespace ashlar::testing
