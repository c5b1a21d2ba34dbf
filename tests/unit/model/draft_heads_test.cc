// SPDX-License-Identifier: Apache-2.0
// Which head a drafter has, what its config must say, and what its checkpoint must hold.

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
         {"projector_type", "other",
          "\"dflash\" or \"dflash2\" or \"dspark\" or \"lilicorr\" or \"domino\" or \"xpress\""});
  refuse(with_head(R"({"projector_type":3})"), {"projector_type", "a string"});
  refuse(speculators(R"({"speculators_model_type":"peagle"})"),
         {"speculators_model_type", "peagle", "\"dflash\"", "\"dflash2\""});
  // Which no published one has in this form.
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

TEST_F(HeadLoading, RefusesEveryMissingOrMisshapenTensor) { refuse_each(with_head(), tensors()); }

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
  refuse_each(gated, whole(), {"confidence_head.proj.bias"});  // which some have not
  expect_error([&] { load(flat(), whole()); }, {"gate_proj", "no such tensor"});
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
