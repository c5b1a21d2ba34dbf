// SPDX-License-Identifier: Apache-2.0
// What a checkpoint of the Qwen3.5 class may say, and how it is refused where something is wrong. Values are compared
// with transformers by the goldens of tests/data/families.

#include "unit/model/tiny_logits.h"

namespace ashlar::testing {
namespace {

Json hybrid_config(const std::string& patch = "{}") {
  const char* const own = R"({"hidden_size":8,"num_hidden_layers":2,"linear_num_key_heads":2,"linear_num_value_heads":4,
    "linear_key_head_dim":3,"linear_value_head_dim":5,"linear_conv_kernel_dim":4,"head_dim":8,"num_attention_heads":2,
    "num_key_value_heads":1,"layer_types":["linear_attention","full_attention"]})";
  return patched(patched(tiny_config("qwen3_5_text"), own), patch);
}

Json nested(const Json& text) {
  Json whole = Json::object();
  whole["model_type"] = "qwen3_5";
  whole["text_config"] = text;
  whole["vision_config"] = {{"model_type", "qwen3_5_vision"}};
  return whole;
}

/// Layer 0 is a delta net, layer 1 attention.
Tensors hybrid_tensors(const std::string& inside = "model.") {
  Tensors tensors;
  add_random(tensors, inside + "embed_tokens.weight", {20, 8});
  add_random(tensors, inside + "norm.weight", {8});
  add_random(tensors, "lm_head.weight", {20, 8});
  for (const char* layer : {"layers.0.", "layers.1."}) {
    add_random(tensors, inside + layer + "input_layernorm.weight", {8});
    add_random(tensors, inside + layer + "post_attention_layernorm.weight", {8});
    add_random(tensors, inside + layer + "mlp.gate_proj.weight", {12, 8});
    add_random(tensors, inside + layer + "mlp.up_proj.weight", {12, 8});
    add_random(tensors, inside + layer + "mlp.down_proj.weight", {8, 12});
  }
  const std::string delta = inside + "layers.0.linear_attn.";
  add_random(tensors, delta + "in_proj_qkv.weight", {32, 8});
  add_random(tensors, delta + "in_proj_z.weight", {20, 8});
  add_random(tensors, delta + "in_proj_b.weight", {4, 8});
  add_random(tensors, delta + "in_proj_a.weight", {4, 8});
  add_random(tensors, delta + "conv1d.weight", {32, 1, 4});
  add_random(tensors, delta + "A_log", {4});
  add_random(tensors, delta + "dt_bias", {4});
  add_random(tensors, delta + "norm.weight", {5});
  add_random(tensors, delta + "out_proj.weight", {8, 20});
  const std::string attention = inside + "layers.1.self_attn.";
  add_random(tensors, attention + "q_proj.weight", {32, 8});
  add_random(tensors, attention + "k_proj.weight", {8, 8});
  add_random(tensors, attention + "v_proj.weight", {8, 8});
  add_random(tensors, attention + "o_proj.weight", {8, 16});
  add_random(tensors, attention + "q_norm.weight", {8});
  add_random(tensors, attention + "k_norm.weight", {8});
  return tensors;
}

class Qwen35 : public ::testing::Test {
 protected:
  std::unique_ptr<Model> load(const Json& config, const Tensors& tensors) {
    return Model::load(*ops_, ModelFolder(config, tensors).path());
  }
  void refuse(const Json& config, const Tensors& tensors, const std::vector<std::string>& parts) {
    expect_error([&] { load(config, tensors); }, parts);
  }
  std::unique_ptr<Ops> ops_ = make_device("ref", {});
};

TEST_F(Qwen35, ReadsItsSwitchesAndTheUsualValues) {
  const Json least = hybrid_config(R"({"layer_types":"<absent>","num_hidden_layers":8,"head_dim":"<absent>",
    "linear_num_key_heads":"<absent>","linear_num_value_heads":"<absent>","linear_key_head_dim":"<absent>",
    "linear_value_head_dim":"<absent>","linear_conv_kernel_dim":"<absent>","num_key_value_heads":"<absent>",
    "num_attention_heads":16})");
  const ModelConfig config = read_config_json(least, "here");
  EXPECT_EQ(config.stack.delta_net->layers, (std::vector<bool>{true, true, true, false, true, true, true, false}));
  EXPECT_EQ(config.stack.delta_net->shape, (DeltaShape{16, 32, 128, 128, 4}));
  EXPECT_EQ(config.stack.layers[0].shape.head_dim, 256);
  EXPECT_EQ(config.stack.layers[0].shape.n_kv_heads, 4);
  EXPECT_EQ(config.stack.layers[0].rope.rotary_dim(256), 64);
  EXPECT_TRUE(config.stack.output_gate && config.stack.norms_from_one && config.stack.qk_norm);
  EXPECT_EQ(config.stop_ids, std::vector<int32_t>{3});
}

// What concerns the whole checkpoint may stand outside, and counts there.
TEST_F(Qwen35, ReadsTheTextModelOfOneThatSees) {
  Json whole = nested(hybrid_config(R"({"tie_word_embeddings":true})"));
  EXPECT_TRUE(read_config_json(whole, "here").tied_head);
  EXPECT_EQ(read_config_json(whole, "here").stop_ids, std::vector<int32_t>{3});
  whole["tie_word_embeddings"] = false;
  whole["eos_token_id"] = {5, 6};
  EXPECT_FALSE(read_config_json(whole, "here").tied_head);
  EXPECT_EQ(read_config_json(whole, "here").stop_ids, (std::vector<int32_t>{5, 6}));
}

TEST_F(Qwen35, ReadsMixturesWithAGatedSharedExpert) {
  Json config = hybrid_config(R"({"model_type":"qwen3_5_moe_text","intermediate_size":"<absent>","num_experts":6,
    "num_experts_per_tok":2,"moe_intermediate_size":7,"shared_expert_intermediate_size":9})");
  const MoeConfig moe = *read_config_json(config, "here").stack.moe;
  EXPECT_EQ(moe.n_experts, 6);
  EXPECT_EQ(moe.intermediate, 7);
  EXPECT_EQ(moe.shared_intermediate, 9);
  EXPECT_TRUE(moe.shared_gate && moe.routing.normalise && moe.layers[0]);
  config["norm_topk_prob"] = false;
  expect_error([&] { read_config_json(config, "here"); }, {"norm_topk_prob", "true"});
  config.erase("norm_topk_prob");
  config.erase("shared_expert_intermediate_size");
  expect_error([&] { read_config_json(config, "here"); }, {"shared_expert_intermediate_size", "found nothing"});
}

TEST_F(Qwen35, RefusesWhatItWouldComputeDifferently) {
  const auto refused = [](const Json& config, std::vector<std::string> parts) {
    parts.emplace_back("[config]");
    expect_error([&] { read_config_json(config, "here"); }, parts);
  };
  for (const bool inside : {false, true}) {
    const auto with = [inside](const std::string& patch) {
      return inside ? nested(hybrid_config(patch)) : hybrid_config(patch);
    };
    refused(with(R"({"attention_bias":true})"), {"attention_bias", "false"});
    refused(with(R"({"attn_output_gate":false})"), {"attn_output_gate", "true"});
    refused(with(R"({"layer_types":["linear_attention"]})"), {"layer_types", "2 entries"});
    refused(with(R"({"layer_types":["linear_attention","sliding_attention"]})"), {"layer_types", "linear_attention"});
    refused(with(R"({"layer_types":"<absent>","full_attention_interval":0})"), {"full_attention_interval"});
    refused(with(R"({"linear_num_value_heads":5})"), {"linear_num_value_heads", "a multiple", "(2)", "found 5"});
    refused(with(R"({"linear_num_key_heads":0})"), {"linear_num_key_heads"});
    refused(with(R"({"linear_key_head_dim":513})"), {"linear_key_head_dim", "512"});
    refused(with(R"({"linear_value_head_dim":"5"})"), {"linear_value_head_dim", "an integer"});
    refused(with(R"({"linear_conv_kernel_dim":17})"), {"linear_conv_kernel_dim", "16"});
    refused(with(R"({"hidden_act":"gelu"})"), {"hidden_act"});
    refused(with(R"({"rope_parameters":{"rope_type":"default","partial_rotary_factor":0.1}})"), {"partial_rotary"});
  }
  Json whole = nested(hybrid_config());
  whole.erase("text_config");
  refused(whole, {"text_config", "found nothing"});
  whole["text_config"] = 3;
  refused(whole, {"text_config", "an object"});
}

TEST_F(Qwen35, EveryMissingTensorAndEveryWrongShapeIsNamed) {
  load(hybrid_config(), hybrid_tensors());
  for (const std::string inside : {"model.", "model.language_model."}) {
    const Json config = nested(hybrid_config());
    for (const auto& [name, tensor] : hybrid_tensors(inside)) {
      SCOPED_TRACE(name);
      if (name.find("embed_tokens") != std::string::npos) continue;  // by which the names are chosen
      Tensors missing = hybrid_tensors(inside);
      missing.erase(name);
      refuse(config, missing, {"[weights]", "tensor " + name, "missing", describe_shape(tensor.shape)});
      std::vector<int64_t> shape = tensor.shape;
      ++shape.back();
      Tensors wrong = hybrid_tensors(inside);
      wrong[name] = zeros(name, "F32", 4, shape);
      refuse(config, wrong,
             {"tensor " + name, "expected shape " + describe_shape(tensor.shape), "found " + describe_shape(shape)});
    }
  }
  Tensors more = hybrid_tensors();
  add_random(more, "model.layers.0.self_attn.q_proj.weight", {32, 8});
  refuse(hybrid_config(), more, {"model.layers.0.self_attn.q_proj.weight", "not part of this model"});
}

TEST_F(Qwen35, EveryDeviceComputesTheSameInMixedTypes) {
  expect_types_mix(hybrid_config(), hybrid_tensors(),
                   {"model.layers.0.linear_attn.in_proj_z.weight", "model.layers.1.self_attn.k_proj.weight"});
}

// The same numbers under either name, with or without parts that only see or predict ahead.
TEST_F(Qwen35, LeavesOutWhatTheTextModelDoesNotNeed) {
  Tensors outside = hybrid_tensors();
  Tensors inside;
  for (const auto& [name, tensor] : outside) {
    const bool of_text = name.starts_with("model.");
    const std::string other = of_text ? "model.language_model." + name.substr(6) : name;
    inside[other] = tensor;
    inside[other].name = other;
  }
  add_random(inside, "model.visual.patch_embed.weight", {3, 5});
  add_random(inside, "model.visual.blocks.0.norm.weight", {3});
  add_random(inside, "mtp.fc.weight", {8, 16});
  EXPECT_EQ(load(hybrid_config(), outside)->unused(), "");
  EXPECT_EQ(load(nested(hybrid_config()), inside)->unused(), "2 of model.visual., 1 of mtp.");
  EXPECT_EQ(tiny_logits(*ops_, ModelFolder(nested(hybrid_config()), inside)),
            tiny_logits(*ops_, ModelFolder(hybrid_config(), outside)));
}

}  // namespace
}  // namespace ashlar::testing
