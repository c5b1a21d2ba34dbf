// SPDX-License-Identifier: Apache-2.0
#include "model/drafters/dflash_config.h"

#include "model/drafters/dflash.h"
#include "unit/model/head_json.h"

namespace ashlar::testing {
namespace {

Json zlab() {
  return patched(tiny_config("qwen3"), R"({"num_target_layers":6,"block_size":4,
    "dflash_config":{"mask_token_id":19,"target_layer_ids":[1,3]}})");
}

Json of_speculators() {
  Json config = parse_json(R"({"speculators_model_type":"dflash","aux_hidden_state_layer_ids":[2,4],"mask_token_id":19,
    "draft_vocab_size":10})",
                           "speculators");
  config["transformer_layer_config"] = tiny_config("qwen3");
  return config;
}

/// `patch` goes to the nested object under `nested`.
Json inside(Json config, const std::string& nested, const std::string& patch) {
  config[nested] = patched(config[nested], patch);
  return config;
}

TEST(DflashConfig, ReadsTheZlabForm) {
  const DflashConfig config = read(zlab());
  EXPECT_EQ(config.block_size, 4);
  EXPECT_EQ(config.max_width(), 4);
  EXPECT_EQ(config.aux_layers, (std::vector<int32_t>{1, 3}));
  EXPECT_EQ(config.target_layers, 6);
  EXPECT_EQ(config.target_hidden, 8);
  EXPECT_EQ(config.vocab, 20);
  EXPECT_EQ(config.draft_vocab, 20);
  EXPECT_EQ(config.mask_id, 19);
  EXPECT_FALSE(config.own_vocabulary || config.sample_from_anchor);
  EXPECT_TRUE(config.stack.qk_norm && !config.stack.layers[0].causal);
  const Json moved = inside(patched(zlab(), R"({"block_size":"<absent>"
})"),
                            "dflash_config", R"({"block_size":7})");
  EXPECT_EQ(read(moved).block_size, 7);
}

TEST(DflashConfig, ReadsTheSpeculatorsForm) {
  const DflashConfig config = read(of_speculators());
  EXPECT_EQ(config.block_size, 8);                             // the class default
  EXPECT_EQ(config.aux_layers, (std::vector<int32_t>{1, 3}));  // ids count from the embedding
  EXPECT_EQ(config.vocab, 20);
  EXPECT_EQ(config.draft_vocab, 10);
  EXPECT_TRUE(config.own_vocabulary);
  EXPECT_EQ(read(patched(of_speculators(), R"({"sample_from_anchor":true})")).max_width(), 9);
}

TEST(DflashConfig, RecognisesItsFolders) {
  const TempFolder folder;
  EXPECT_FALSE(is_dflash_folder(folder.path()));
  folder.write("config.json", zlab().dump());
  EXPECT_TRUE(is_dflash_folder(folder.path()));
  folder.write("config.json", of_speculators().dump());
  EXPECT_TRUE(is_dflash_folder(folder.path()));
  folder.write("config.json", tiny_config().dump());
  EXPECT_FALSE(is_dflash_folder(folder.path()));
  expect_error([&] { read_dflash_config(folder.path()); }, {"[drafter]", "config.json", "dflash_config"});
  folder.write("config.json", "[]");
  EXPECT_FALSE(is_dflash_folder(folder.path()));
  folder.write("config.json", "{");
  expect_error([&] { is_dflash_folder(folder.path()); }, {"config.json"});
  expect_error([&] { read_dflash_config(folder.path() / "none"); }, {"none", "no config.json"});
}

TEST(DflashConfig, RefusesBadZlabConfigs) {
  const auto nested = [](const char* patch) { return inside(zlab(), "dflash_config", patch); };
  refuse(patched(zlab(), R"({"dflash_config":3})"), {"dflash_config", "an object"});
  refuse(patched(zlab(), R"({"block_size":1})"), {"block_size", "found 1"});
  refuse(patched(zlab(), R"({"block_size":257})"), {"block_size", "256"});
  refuse(patched(zlab(), R"({"block_size":"<absent>"
})"),
         {"block_size", "found nothing"});
  refuse(patched(zlab(), R"({"num_target_layers":"<absent>"
})"),
         {"num_target_layers"});
  refuse(patched(zlab(), R"({"num_target_layers":0})"), {"num_target_layers"});
  refuse(patched(zlab(), R"({"target_hidden_size":0})"), {"target_hidden_size"});
  refuse(patched(zlab(), R"({"quantization_config":{}})"), {"quantization_config", "unquantised"});
  refuse(patched(zlab(), R"({"head_dim":3})"), {"head_dim"});
  refuse(nested(R"({"mask_token_id":20})"), {"mask_token_id", "0 to 19", "found 20"});
  refuse(nested(R"({"mask_token_id":"<absent>"
  })"),
         {"mask_token_id", "found nothing"});
  // Guessed layers would draft, but badly, and no one would know why.
  refuse(nested(R"({"target_layer_ids":"<absent>"})"), {"target_layer_ids", "found nothing"});
  refuse(nested(R"({"target_layer_ids":null})"), {"target_layer_ids", "found nothing"});
  refuse(patched(of_speculators(), R"({"aux_hidden_state_layer_ids":"<absent>"})"),
         {"aux_hidden_state_layer_ids", "found nothing"});
  refuse(nested(R"({"target_layer_ids":[]})"), {"no target layers"});
  refuse(nested(R"({"target_layer_ids":[6]})"), {"target_layer_ids", "0 to 5"});
  refuse(nested(R"({"target_layer_ids":[-1]})"), {"target_layer_ids", "0 to 5"});
  const char* const usual = "ids that count the embedding as the first layer are one too high";
  refuse(nested(R"({"target_layer_ids":[2,4,6]})"), {"target_layer_ids", "0 to 5", usual, "found [2,4,6]"});
  refuse(nested(R"({"target_layer_ids":3})"), {"target_layer_ids", "a list"});
  refuse(nested(R"({"input_embedding_scale":"2"})"), {"input_embedding_scale", "a number"});
  refuse(nested(R"({"output_multiplier":1e300})"), {"output_multiplier", "a number from"});
  refuse(nested(R"({"final_logit_softcapping":-1})"), {"final_logit_softcapping"});
  refuse(nested(R"({"projector_type":"mlp"})"), {"projector_type", "dflash", "found \"mlp\""});
  refuse(nested(R"({"draft_vocab_size":10})"), {"draft_vocab_size", "20 or nothing", "found 10"});
  refuse(nested(R"({"attention_sink_bias":true})"), {"attention_sink_bias", "not supported"});
  refuse(nested(R"({"attention_value_scale":2.0})"), {"attention_value_scale", "not supported"});
  refuse(nested(R"({"causal":"no"})"), {"causal", "true or false"});
}

// As plain DFlash a head of another kind would draft badly, and nothing would say so.
TEST(DflashConfig, RefusesArchitecturesAndTypesByNamingThoseThatAreKnown) {
  EXPECT_EQ(read(patched(zlab(), R"({"architectures":["Qwen3ForCausalLM"]})")).head, "dflash");
  EXPECT_EQ(read(patched(zlab(), R"({"architectures":["DFlashDraftModel"]})")).head, "dflash");
  refuse(patched(zlab(), R"({"architectures":["FooDraftModel"]})"),
         {"architectures", "DFlashDraftModel", "DFlash2DraftModel", "Qwen3DSparkModel", "found [\"FooDraftModel\"]"});
  refuse(patched(of_speculators(), R"({"speculators_model_type":"eagle"})"),
         {"speculators_model_type", "dflash2", "\"eagle3\" or \"peagle\"", "found \"eagle\""});
}

TEST(DflashConfig, RefusesSizesThatOverflow) {
  std::string ids = "0";
  for (int i = 0; i < 1000; ++i) ids += ",0";
  refuse(inside(zlab(), "dflash_config", "{\"target_layer_ids\":[" + ids + "]}"),
         {"1001 target layers", "at most 1000"});
  refuse(patched(zlab(),
                 R"({"num_hidden_layers":1000,"num_attention_heads":4096,"num_key_value_heads":4096,"head_dim":512})"),
         {"1000 layers", "2097152"});
}

TEST(DflashConfig, RefusesBadSpeculatorsConfigs) {
  refuse(patched(of_speculators(), R"({"speculators_model_type":"eagle3"})"),
         {"speculators_model_type", "dflash", "eagle3"});
  refuse(patched(of_speculators(), R"({"speculators_model_type":4})"), {"speculators_model_type", "a string"});
  refuse(patched(of_speculators(), R"({"transformer_layer_config":"<absent>"
  })"),
         {"transformer_layer_config"});
  refuse(patched(of_speculators(), R"({"draft_vocab_size":21})"), {"draft_vocab_size", "1 to 20"});
  refuse(patched(of_speculators(), R"({"draft_vocab_size":0})"), {"draft_vocab_size"});
  refuse(patched(of_speculators(), R"({"aux_hidden_state_layer_ids":"<absent>"
  })"),
         {"aux_hidden_state_layer_ids"});
  refuse(patched(of_speculators(), R"({"aux_hidden_state_layer_ids":[]})"), {"no target layers"});
  refuse(patched(of_speculators(), R"({"aux_hidden_state_layer_ids":[0]})"),
         {"aux_hidden_state_layer_ids", "1 to 1000"});
  refuse(patched(of_speculators(), R"({"mask_token_id":20})"), {"mask_token_id"});
  refuse(inside(of_speculators(), "transformer_layer_config", R"({"vocab_size":"<absent>"
  })"),
         {"vocab_size"});
  refuse(inside(of_speculators(), "transformer_layer_config", R"({"hidden_size":"x"})"), {"hidden_size"});
}

class Fit : public ::testing::Test {
 protected:
  Fit() {
    drafter_.folder = "/drafters/d";
    drafter_.stack.hidden = drafter_.target_hidden = 8;
    drafter_.vocab = 20;
    drafter_.target_layers = 6;
    drafter_.aux_layers = {1, 3};
    target_.folder = "/models/m";
    target_.stack.hidden = 8;
    target_.stack.n_layers = 6;
    target_.vocab = 20;
  }
  void refuse(std::vector<std::string> parts) {
    parts.insert(parts.end(), {"[drafter]", "/drafters/d", "/models/m"});
    expect_error([&] { check_fit(drafter_, target_); }, parts);
  }
  DflashConfig drafter_;
  ModelConfig target_;
};

TEST_F(Fit, AcceptsItsOwnTarget) {
  EXPECT_NO_THROW(check_fit(drafter_, target_));
  drafter_.target_layers = 0;  // not stated
  drafter_.aux_layers = {5, 1};
  EXPECT_NO_THROW(check_fit(drafter_, target_));
}

TEST_F(Fit, RefusesAnotherVocabulary) {
  drafter_.vocab = 21;
  refuse({"vocabulary", "21", "20"});
}

TEST_F(Fit, RefusesAnotherWidth) {
  drafter_.target_hidden = 16;
  refuse({"hidden size", "16", "8"});
}

TEST_F(Fit, RefusesAnotherEmbeddingWidthUnlessItBringsItsOwn) {
  drafter_.stack.hidden = 4;
  refuse({"embedding width", "4", "8"});
  drafter_.own_vocabulary = true;
  EXPECT_NO_THROW(check_fit(drafter_, target_));
}

TEST_F(Fit, RefusesAnotherDepth) {
  target_.stack.n_layers = 7;
  refuse({"layer count", "6", "7"});
  drafter_.target_layers = 0;
  drafter_.aux_layers = {7, 2};
  refuse({"target layer", "7"});
  target_.stack.n_layers = 6;  // of a form whose file does not say how many there are
  drafter_.aux_layers = {2, 6};
  refuse({"index 6", "has 6 (layer ids that count the embedding as the first layer are one too high)"});
}

class DrafterLoading : public ::testing::Test {
 protected:
  DrafterLoading() : ops_(make_device("ref", {})), model_(Model::load(*ops_, target_.path())) {}

  Json config(const std::string& patch = "{}") const {
    return patched(patched(tiny_config(), R"({"num_target_layers":2,"block_size":4,"num_hidden_layers":1,
      "dflash_config":{"mask_token_id":19,"target_layer_ids":[0,1]}})"),
                   patch);
  }
  static Tensors tensors() { return backbone(); }
  Json own_config() const {
    Json root = parse_json(R"({"speculators_model_type":"dflash","aux_hidden_state_layer_ids":[1,2],"mask_token_id":19,
      "draft_vocab_size":3})",
                           "speculators");
    root["transformer_layer_config"] = patched(tiny_config(), R"({"num_hidden_layers":1})");
    return root;
  }
  static Tensors own_tensors(const std::vector<int64_t>& offsets) {
    Tensors result = tensors();
    add_random(result, "embed_tokens.weight", {20, 8});
    add_random(result, "lm_head.weight", {3, 8});
    result["d2t"] = zeros("d2t", "I64", 8, {3});
    std::memcpy(result["d2t"].bytes.data(), offsets.data(), 24);
    result["t2d"] = zeros("t2d", "BOOL", 1, {20});
    return result;
  }
  std::unique_ptr<DflashDrafter> load(const ModelFolder& folder) { return DflashDrafter::load(*model_, folder.path()); }
  void refuse(const Json& config, const Tensors& tensors, std::vector<std::string> parts) {
    const ModelFolder folder(config, tensors);
    parts.push_back(folder.path().string());
    expect_error([&] { load(folder); }, parts);
  }

  ModelFolder target_;
  std::unique_ptr<Ops> ops_;
  std::unique_ptr<Model> model_;
};

TEST_F(DrafterLoading, TakesAWholeCheckpoint) {
  const ModelFolder folder(config(), tensors());
  EXPECT_EQ(load(folder)->aux_width(), 16);
  Tensors prefixed;
  for (const auto& [name, tensor] : tensors()) add_random(prefixed, "model." + name, tensor.shape);
  EXPECT_NO_THROW(load(ModelFolder(config(), prefixed)));
}

TEST_F(DrafterLoading, ErrorsNameBothFolders) {
  for (const auto& [patch, part] :
       std::vector<std::pair<std::string, std::string>>{{R"({"vocab_size":24})", "a vocabulary of 24"},
                                                        {R"({"target_hidden_size":16})", "a hidden size of 16"},
                                                        {R"({"hidden_size":16})", "size of 16"},
                                                        {R"({"num_target_layers":3})", "a layer count of 3"}}) {
    refuse(config(patch), tensors(), {target_.path().string(), "was not made for", part});
  }
}

TEST_F(DrafterLoading, EveryTensorIsTakenAndChecked) {
  for (const auto& [name, tensor] : tensors()) {
    SCOPED_TRACE(name);
    Tensors damaged = tensors();
    damaged.erase(name);
    refuse(config(), damaged, {"tensor " + name, "missing"});
    damaged[name] = zeros(name, "F32", 4, {5, 5, 5});
    refuse(config(), damaged, {"model.safetensors", "tensor " + name, describe_shape(tensor.shape), "[5, 5, 5]"});
  }
  Tensors extra = tensors();
  add_random(extra, "lm_head.weight", {20, 8});
  refuse(config(), extra, {"tensor lm_head.weight", "expected no such tensor"});
}

TEST_F(DrafterLoading, DraftIdsLeadIntoTheTarget) {
  const ModelFolder folder(own_config(), own_tensors({0, 4, 17}));
  const std::unique_ptr<DflashDrafter> drafter = load(folder);
  ASSERT_NE(drafter->id_map(), nullptr);
  EXPECT_EQ(std::vector<int32_t>(drafter->id_map(), drafter->id_map() + 3), (std::vector<int32_t>{0, 5, 19}));
  for (const std::vector<int64_t>& offsets : {std::vector<int64_t>{-1, 0, 0},
                                              {20, 0, 0},
                                              {0, 0, 18},
                                              {0, -2, 0},
                                              {INT64_MAX, 0, 0},
                                              {0, INT64_MIN, 0},
                                              {0, 0, INT64_MAX}}) {
    refuse(own_config(), own_tensors(offsets), {"tensor d2t", "outside the vocabulary of 20"});
  }
}

TEST_F(DrafterLoading, DraftIdTensorsAreChecked) {
  Tensors missing = own_tensors({0, 0, 0});
  missing.erase("d2t");
  refuse(own_config(), missing, {"tensor d2t", "missing", "[3]"});
  Tensors typed = own_tensors({0, 0, 0});
  typed["d2t"] = zeros("d2t", "I32", 4, {3});
  refuse(own_config(), typed, {"tensor d2t", "I64", "I32"});
  Tensors shaped = own_tensors({0, 0, 0});
  shaped["t2d"] = zeros("t2d", "BOOL", 1, {3});
  refuse(own_config(), shaped, {"tensor t2d", "[20]", "[3]"});
}

}  // namespace
}  // namespace ashlar::testing
