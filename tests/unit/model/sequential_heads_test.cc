// SPDX-License-Identifier: Apache-2.0
// What heads that draft one token at a time ask of their files, and how they are refused where something is wrong.
// Values are compared with PyTorch by the goldens of tests/data/heads.

#include <gtest/gtest.h>

#include "model/drafters/eagle3.h"
#include "model/drafters/mtp.h"
#include "unit/model/tiny_model.h"

namespace ashlar::testing {
namespace {

/// All layers are attention, which this family allows too.
Json target_config(const std::string& patch = "{}") {
  return patched(patched(tiny_config("qwen3_5_text"),
                         R"({"layer_types":["full_attention","full_attention"],"partial_rotary_factor":0.5})"),
                 patch);
}

void add_layer(Tensors& tensors, const std::string& base, int64_t columns) {
  for (const char* norm : {"input_layernorm", "post_attention_layernorm"}) {
    add_random(tensors, base + norm + ".weight", {8});
  }
  add_random(tensors, base + "self_attn.k_proj.weight", {4, columns});
  add_random(tensors, base + "self_attn.v_proj.weight", {4, columns});
  add_random(tensors, base + "self_attn.o_proj.weight", {8, 8});
  add_random(tensors, base + "mlp.gate_proj.weight", {12, 8});
  add_random(tensors, base + "mlp.up_proj.weight", {12, 8});
  add_random(tensors, base + "mlp.down_proj.weight", {8, 12});
}

void add_gated_layer(Tensors& tensors, const std::string& base) {
  add_layer(tensors, base, 8);
  add_random(tensors, base + "self_attn.q_proj.weight", {16, 8});
  for (const char* norm : {"q_norm", "k_norm"}) add_random(tensors, base + "self_attn." + norm + ".weight", {4});
}

Tensors target_tensors() {
  Tensors tensors;
  add_random(tensors, "model.embed_tokens.weight", {20, 8});
  add_random(tensors, "model.norm.weight", {8});
  add_random(tensors, "lm_head.weight", {20, 8});
  for (const char* layer : {"model.layers.0.", "model.layers.1."}) add_gated_layer(tensors, layer);
  return tensors;
}

Tensors mtp_tensors() {
  Tensors tensors;
  add_random(tensors, "mtp.fc.weight", {8, 16});
  for (const char* norm : {"pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm"}) {
    add_random(tensors, std::string("mtp.") + norm + ".weight", {8});
  }
  add_gated_layer(tensors, "mtp.layers.0.");
  return tensors;
}

class DraftHeadFiles : public ::testing::Test {
 protected:
  /// A model whose checkpoint has these tensors as well.
  struct Loaded {
    Loaded(Ops& ops, const Json& config, const Tensors& tensors)
        : folder(config, tensors), model(Model::load(ops, folder.path())) {}
    ModelFolder folder;
    std::unique_ptr<Model> model;
  };
  std::unique_ptr<Loaded> load(const Json& config, const Tensors& more) {
    Tensors tensors = target_tensors();
    tensors.insert(more.begin(), more.end());
    return std::make_unique<Loaded>(*ops_, config, tensors);
  }
  void refuse_mtp(const Json& config, const Tensors& more, const std::vector<std::string>& parts) {
    const auto loaded = load(config, more);  // the model itself does not mind
    expect_error([&] { MtpHead::load(*loaded->model); }, parts);
  }
  std::unique_ptr<Ops> ops_ = make_device("ref", {});
};

TEST_F(DraftHeadFiles, MtpIsFoundWhereItIsWhole) {
  const auto loaded = load(target_config(), mtp_tensors());
  EXPECT_TRUE(has_mtp(loaded->folder.path()));
  EXPECT_EQ(MtpHead::load(*loaded->model)->aux_width(), 8);
  EXPECT_EQ(loaded->model->unused(), "15 of mtp.");
  EXPECT_EQ(loaded->model->unused(true), "");
  EXPECT_FALSE(has_mtp(load(target_config(), {})->folder.path()));
  EXPECT_FALSE(has_mtp(load(target_config(R"({"mtp_num_hidden_layers":0})"), mtp_tensors())->folder.path()));
  EXPECT_FALSE(has_mtp(load(target_config(R"({"mtp_num_hidden_layers":2})"), mtp_tensors())->folder.path()));
}

TEST_F(DraftHeadFiles, EveryTensorOfMtpIsNeededInItsShape) {
  for (const auto& [name, tensor] : mtp_tensors()) {
    SCOPED_TRACE(name);
    Tensors without = mtp_tensors();
    without.erase(name);
    refuse_mtp(target_config(), without, {name});
    EXPECT_FALSE(has_mtp(load(target_config(), without)->folder.path())) << "no one asked for it";
    Tensors wrong = without;
    add_random(wrong, name, {tensor.shape[0] + 1, 3});
    refuse_mtp(target_config(), wrong, {name, "shape"});
  }
  Tensors more = mtp_tensors();
  add_random(more, "mtp.layers.1.input_layernorm.weight", {8});
  refuse_mtp(target_config(), more, {"mtp.layers.1.input_layernorm.weight"});
  refuse_mtp(target_config(), {}, {"[drafter]", "no tensors mtp.*"});
}

TEST_F(DraftHeadFiles, MtpOfOtherKindsIsRefusedInWords) {
  refuse_mtp(target_config(R"({"mtp_num_hidden_layers":2})"), mtp_tensors(), {"mtp_num_hidden_layers", "2"});
  refuse_mtp(target_config(R"({"mtp_use_dedicated_embeddings":true})"), mtp_tensors(),
             {"mtp_use_dedicated_embeddings"});
  const ModelFolder other(tiny_config("qwen3"), tiny_tensors());
  const auto model = Model::load(*ops_, other.path());
  expect_error([&] { MtpHead::load(*model); }, {"[drafter]", "qwen3"});
}

// The same layer in DeepSeek's spelling: one more of the model's, with copies of its embedding and head.
class NextLayerFiles : public DraftHeadFiles {
 protected:
  static constexpr const char* kLayer = "model.layers.1.";

  static Json config(const std::string& patch = "{}") {
    return patched(patched(tiny_config("glm4_moe"), R"({"num_hidden_layers":1,"n_routed_experts":4,"head_dim":4,
      "num_experts_per_tok":2,"moe_intermediate_size":6,"first_k_dense_replace":1,"n_shared_experts":1})"),
                   patch);
  }
  static void add_plain_layer(Tensors& tensors, const std::string& base) {
    add_layer(tensors, base, 8);
    add_random(tensors, base + "self_attn.q_proj.weight", {8, 8});
  }
  static Tensors layer() {
    Tensors tensors;
    add_plain_layer(tensors, kLayer);
    for (const char* norm : {"enorm", "hnorm", "shared_head.norm"}) {
      add_random(tensors, std::string(kLayer) + norm + ".weight", {8});
    }
    add_random(tensors, std::string(kLayer) + "eh_proj.weight", {8, 16});
    return tensors;
  }
  static Tensors model() {
    Tensors tensors;
    add_random(tensors, "model.embed_tokens.weight", {20, 8});
    add_random(tensors, "model.norm.weight", {8});
    add_random(tensors, "lm_head.weight", {20, 8});
    add_plain_layer(tensors, "model.layers.0.");
    return tensors;
  }
  /// The model with these tensors as well.
  std::unique_ptr<Loaded> whole(const Tensors& more, const std::string& patch = "{}") {
    Tensors tensors = model();
    tensors.insert(more.begin(), more.end());
    return std::make_unique<Loaded>(*ops_, config(patch), tensors);
  }
  void refuse(const Tensors& more, const std::string& patch, const std::vector<std::string>& parts) {
    const auto loaded = whole(more, patch);  // the model itself does not mind
    expect_error([&] { MtpHead::load(*loaded->model); }, parts);
    EXPECT_FALSE(has_mtp(loaded->folder.path()) && patch != "{}");
  }
};

TEST_F(NextLayerFiles, AreFoundWhereTheyAreWhole) {
  const auto loaded = whole(layer());
  EXPECT_TRUE(has_mtp(loaded->folder.path()));
  EXPECT_EQ(MtpHead::load(*loaded->model)->aux_width(), 8);
  EXPECT_EQ(loaded->model->unused(), "13 of model.layers.1.");
  EXPECT_EQ(loaded->model->unused(true), "");
  EXPECT_FALSE(has_mtp(whole({})->folder.path()));
}

TEST_F(NextLayerFiles, EveryTensorIsNeededInItsShape) {
  for (const auto& [name, tensor] : layer()) {
    SCOPED_TRACE(name);
    Tensors changed = layer();
    changed.erase(name);
    refuse(changed, "{}", {name});
    add_random(changed, name, {tensor.shape[0] + 1, 3});
    refuse(changed, "{}", {name, "shape"});
  }
  refuse({}, "{}", {"[drafter]", "no tensors model.layers.1.*"});
  refuse(layer(), R"({"num_nextn_predict_layers":2})", {"num_nextn_predict_layers is 2"});
  Tensors more = layer();
  add_random(more, "model.layers.2.enorm.weight", {8});
  expect_error([&] { whole(more); }, {"model.layers.2.enorm.weight", "not part of this model"});
  for (const char* copy : {"embed_tokens", "shared_head.head"}) {
    more = layer();
    add_random(more, std::string(kLayer) + copy + ".weight", {20, 7});
    refuse(more, "{}", {copy, "shape"});
  }
}

// A copy costs nothing; what differs from the model's own is the layer's.
TEST_F(NextLayerFiles, CopiesOfTheModelsMatricesAreShared) {
  // Whether the head and the embedding are the model's.
  const auto shares = [&](const std::string& name, const std::string& original) {
    Tensors tensors = layer();
    if (!name.empty()) {
      TensorSpec copy = model().at(original + ".weight");
      copy.name = kLayer + name + ".weight";
      tensors[copy.name] = copy;
    }
    const auto loaded = whole(tensors);
    const auto head = MtpHead::load(*loaded->model);
    return std::pair(&loaded->model->head_weight() == &head->head_weight(),
                     &loaded->model->embedding() == &head->embedding());
  };
  EXPECT_EQ(shares("", ""), std::pair(true, true));
  EXPECT_EQ(shares("shared_head.head", "lm_head"), std::pair(true, true));
  EXPECT_EQ(shares("shared_head.head", "model.embed_tokens"), std::pair(false, true));
  EXPECT_EQ(shares("embed_tokens", "model.embed_tokens"), std::pair(true, true));
  EXPECT_EQ(shares("embed_tokens", "lm_head"), std::pair(true, false));
}

Json eagle3_config(const std::string& patch = "{}") {
  Json config = patched(tiny_config("llama"), R"({"num_hidden_layers":1,"draft_vocab_size":12,
    "architectures":["LlamaForCausalLMEagle3"],"eagle_config":{"eagle_aux_hidden_state_layer_ids":[0,1,0]}})");
  return patched(config, patch);
}

Json speculators_config(const std::string& patch = "{}") {
  Json config = parse_json(R"({"speculators_model_type":"eagle3","draft_vocab_size":20,
    "eagle_aux_hidden_state_layer_ids":[1,2],"norm_before_residual":true})",
                           "speculators");
  config["transformer_layer_config"] = patched(tiny_config("qwen3"), R"({"num_hidden_layers":1})");
  return patched(config, patch);
}

/// Entry i of the draft vocabulary is token i + 2.
void add_offsets(Tensors& tensors, int64_t entries, int64_t offset = 2) {
  TensorSpec offsets = zeros("d2t", "I64", 8, {entries});
  for (int64_t i = 0; i < entries; ++i) std::memcpy(offsets.bytes.data() + 8 * i, &offset, sizeof(offset));
  tensors["d2t"] = offsets;
}

Tensors eagle3_tensors(const std::string& layer = "midlayer.") {
  Tensors tensors;
  add_random(tensors, "fc.weight", {8, 24});
  add_random(tensors, "norm.weight", {8});
  add_random(tensors, "lm_head.weight", {12, 8});
  add_random(tensors, layer + "hidden_norm.weight", {8});
  add_layer(tensors, layer, 16);
  add_random(tensors, layer + "self_attn.q_proj.weight", {8, 16});
  add_offsets(tensors, 12);
  return tensors;
}

class Eagle3Files : public DraftHeadFiles {
 protected:
  std::unique_ptr<Eagle3Head> load_head(const Json& config, const Tensors& tensors) {
    const ModelFolder folder(config, tensors);
    return Eagle3Head::load(*model_, folder.path());
  }
  void refuse(const Json& config, const Tensors& tensors, const std::vector<std::string>& parts) {
    SCOPED_TRACE(config.dump());
    expect_error([&] { load_head(config, tensors); }, parts);
  }
  ModelFolder target_{tiny_config("qwen3"), tiny_tensors()};
  std::unique_ptr<Model> model_ = Model::load(*ops_, target_.path());
};

TEST_F(Eagle3Files, BothNamesOfTheLayerAreRead) {
  for (const char* layer : {"midlayer.", "layers.0."}) {
    const auto head = load_head(eagle3_config(), eagle3_tensors(layer));
    EXPECT_EQ(head->aux_width(), 24);
    EXPECT_EQ(head->draft_vocab(), 12);
    ASSERT_NE(head->id_map(), nullptr);
    EXPECT_EQ(head->id_map()[11], 13);
    ASSERT_EQ(head->aux_layers().size(), 3U);
    EXPECT_EQ(head->aux_layers()[0].layer, 0);
    EXPECT_EQ(head->aux_layers()[2].layer, 1);
    EXPECT_EQ(head->aux_layers()[2].column, 8);
  }
}

TEST_F(Eagle3Files, TheTargetsHeadServesAWholeVocabulary) {
  Tensors tensors = eagle3_tensors();
  tensors.erase("lm_head.weight");
  tensors.erase("d2t");
  EXPECT_EQ(load_head(eagle3_config(R"({"draft_vocab_size":"<absent>"})"), tensors)->draft_vocab(), 20);
}

TEST_F(Eagle3Files, AnEmbeddingOfAllTokensIsNoHeadOfSome) {
  Tensors tensors = eagle3_tensors();
  tensors.erase("lm_head.weight");
  add_random(tensors, "embed_tokens.weight", {20, 8});
  refuse(eagle3_config(R"({"tie_word_embeddings":true})"), tensors, {"lm_head"});
}

TEST_F(Eagle3Files, EveryTensorIsNeededInItsShape) {
  for (const auto& [name, tensor] : eagle3_tensors()) {
    SCOPED_TRACE(name);
    Tensors without = eagle3_tensors();
    without.erase(name);
    // Without this one the layer's names are taken to be the others.
    refuse(eagle3_config(), without, {name == "midlayer.hidden_norm.weight" ? "layers.0." : name});
    Tensors wrong = without;
    if (name == "d2t") {
      add_offsets(wrong, 13);
    } else {
      add_random(wrong, name, {tensor.shape[0] + 1, 3});
    }
    refuse(eagle3_config(), wrong, {name});
  }
  Tensors more = eagle3_tensors();
  add_random(more, "midlayer.self_attn.q_norm.weight", {4});
  refuse(eagle3_config(), more, {"midlayer.self_attn.q_norm.weight"});
  Tensors outside = eagle3_tensors();
  add_offsets(outside, 12, 9);
  refuse(eagle3_config(), outside, {"d2t", "entry 11", "vocabulary of 20"});
}

// Layers after the first read what it leaves, and nothing else.
Tensors two_layer_tensors() {
  Tensors tensors = eagle3_tensors("layers.0.");
  add_layer(tensors, "layers.1.", 8);
  add_random(tensors, "layers.1.self_attn.q_proj.weight", {8, 8});
  return tensors;
}

TEST_F(Eagle3Files, FurtherLayersArePlainOnes) {
  const Json config = eagle3_config(R"({"num_hidden_layers":2})");
  EXPECT_EQ(load_head(config, two_layer_tensors())->draft_vocab(), 12);
  for (const auto& [name, tensor] : two_layer_tensors()) {
    if (!name.starts_with("layers.1.")) continue;
    SCOPED_TRACE(name);
    Tensors without = two_layer_tensors();
    without.erase(name);
    refuse(config, without, {name});
    add_random(without, name, {tensor.shape[0] + 1, 3});
    refuse(config, without, {name});
  }
  Tensors more = two_layer_tensors();
  add_random(more, "layers.1.hidden_norm.weight", {8});
  refuse(config, more, {"layers.1.hidden_norm.weight"});
  refuse(eagle3_config(), two_layer_tensors(), {"layers.1."});
}

TEST_F(Eagle3Files, AMaskComesWithItsFeature) {
  const Json config = eagle3_config(R"({"ptd_token_id":19})");
  EXPECT_EQ(load_head(eagle3_config(), eagle3_tensors())->mask_id(), -1);
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{24}, {1, 24}, {1, 1, 24}}) {
    Tensors tensors = eagle3_tensors();
    add_random(tensors, "mask_hidden", shape);
    EXPECT_EQ(load_head(config, tensors)->mask_id(), 19);
    refuse(eagle3_config(), tensors, {"mask_hidden"});  // and no token for it
  }
  refuse(config, eagle3_tensors(), {"mask_hidden", "missing"});
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{23}, {2, 24}, {24, 1}, {1, 1, 1, 1, 24}}) {
    Tensors tensors = eagle3_tensors();
    add_random(tensors, "mask_hidden", shape);
    refuse(config, tensors, {"mask_hidden", "shape"});
  }
  refuse(eagle3_config(R"({"ptd_token_id":20})"), eagle3_tensors(), {"ptd_token_id", "20"});
  refuse(speculators_config(R"({"speculators_model_type":"peagle"})"), eagle3_tensors(), {"mask_token_id"});
  refuse(speculators_config(R"({"speculators_model_type":"peagle","mask_token_id":-1})"), eagle3_tensors(),
         {"mask_token_id"});
}

TEST_F(Eagle3Files, BadConfigsAreRefused) {
  const Tensors tensors = eagle3_tensors();
  const auto ids = [](const char* list) {
    return eagle3_config(std::string(R"({"eagle_config":{"eagle_aux_hidden_state_layer_ids":)") + list + "}}");
  };
  refuse(ids("[-1,0,1]"), tensors, {"eagle_aux_hidden_state_layer_ids"});
  refuse(ids("[0,1,2]"), tensors, {"target layer with index 2", "the model has 2"});
  refuse(ids("[]"), tensors, {"eagle_aux_hidden_state_layer_ids"});
  refuse(ids("null"), tensors, {"too few for the usual ones"});
  refuse(eagle3_config(R"({"eagle_config":{"use_aux_hidden_state":false}})"), tensors, {"use_aux_hidden_state"});
  refuse(eagle3_config(R"({"num_hidden_layers":2})"), tensors, {"layers.1.input_layernorm.weight"});
  refuse(eagle3_config(R"({"num_hidden_layers":0})"), tensors, {"num_hidden_layers", "0"});
  refuse(eagle3_config(R"({"model_type":"mistral"})"), tensors, {"model_type", "llama or qwen3"});
  refuse(eagle3_config(R"({"draft_vocab_size":21})"), tensors, {"draft_vocab_size", "20"});
  refuse(eagle3_config(R"({"vocab_size":30})"), tensors, {"a vocabulary of 30", "the model has 20"});
  refuse(eagle3_config(R"({"target_hidden_size":9})"), tensors, {"a hidden size of 9", "the model has 8"});
  refuse(eagle3_config(R"({"fc_norm":true,"norm_before_fc":true})"), tensors, {"fc_norm"});
  refuse(eagle3_config(R"({"fc_norm":true})"), tensors, {"fc_norm.0.weight"});
  refuse(eagle3_config(R"({"norm_before_fc":true})"), tensors, {"input_norm.weight"});
  refuse(eagle3_config(R"({"quantization_config":{}})"), tensors, {"quantization_config"});
  refuse(speculators_config(R"({"transformer_layer_config":3})"), tensors, {"transformer_layer_config"});
  refuse(speculators_config(R"({"norm_before_residual":"<absent>"})"), tensors, {"norm_before_residual"});
  refuse(speculators_config(R"({"eagle_aux_hidden_state_layer_ids":[0,1]})"), tensors, {"layer_ids", "found"});
}

TEST_F(Eagle3Files, FoldersAreRecognised) {
  const auto is_one = [](const Json& config) {
    const TempFolder folder;
    folder.write("config.json", config.dump());
    return is_eagle3_folder(folder.path());
  };
  EXPECT_TRUE(is_one(eagle3_config()));
  EXPECT_TRUE(is_one(eagle3_config(R"({"eagle_config":"<absent>"})")));
  EXPECT_TRUE(is_one(speculators_config()));
  EXPECT_TRUE(is_one(speculators_config(R"({"speculators_model_type":"peagle"})")));
  EXPECT_FALSE(is_one(speculators_config(R"({"speculators_model_type":"dflash"})")));
  EXPECT_FALSE(is_one(tiny_config("llama")));
  EXPECT_FALSE(is_one(Json::array()));
  EXPECT_FALSE(is_eagle3_folder(TempFolder().path()));
}

}  // namespace
}  // namespace ashlar::testing
