// What published config.json files of the families say, and how they are refused where the model would differ. Values
// of whole models are compared with transformers by the goldens of tests/data/families.

#include <cmath>

#include "unit/model/tiny_model.h"

namespace ashlar::testing {
namespace {

ModelConfig read(const Json& config) { return read_config_json(config, "here"); }
ModelConfig read(const std::string& family, const std::string& patch) {
  return read(patched(tiny_config(family), patch));
}

TEST(SmolLm3, EveryFourthLayerHasNoRope) {
  const ModelConfig config = read("smollm3", R"({"num_hidden_layers":8,"rope_theta":"<absent>",
    "num_attention_heads":4,"head_dim":"<absent>","num_key_value_heads":"<absent>","eos_token_id":"<absent>",
    "tie_word_embeddings":"<absent>","vocab_size":128256,"use_sliding_window":false,"sliding_window":null})");
  for (int32_t i = 0; i < 8; ++i) {
    const RopeConfig& rope = config.stack.layers[i].rope;
    EXPECT_EQ(rope.rotary_dim(2), i % 4 == 3 ? 0 : 2) << i;
    EXPECT_EQ(rope.theta, i % 4 == 3 ? 1e4 : 2e6);
    EXPECT_EQ(config.stack.layers[i].window, 0);
  }
  EXPECT_EQ(config.stack.layers[0].shape.n_kv_heads, 4);
  EXPECT_EQ(config.stop_ids, std::vector<int32_t>{128001});
  EXPECT_TRUE(config.tied_head);
}

TEST(SmolLm3, RefusesWhatItCannotMakeSenseOf) {
  expect_error([] { read("smollm3", R"({"no_rope_layers":[1]})"); }, {"no_rope_layers", "2 entries"});
  expect_error([] { read("smollm3", R"({"no_rope_layers":[1,2]})"); }, {"no_rope_layers"});
  expect_error([] { read("smollm3", R"({"no_rope_layer_interval":0})"); }, {"no_rope_layer_interval", "found 0"});
}

TEST(Olmo2, NormsComeAfterAndAreWide) {
  const ModelConfig config = read("olmo2", R"({"rms_norm_eps":"<absent>","num_key_value_heads":null})");
  const StackConfig& stack = config.stack;
  EXPECT_TRUE(!stack.input_norms && stack.output_norms && stack.qk_norm && stack.wide_qk_norm);
  EXPECT_FLOAT_EQ(stack.norm_eps, 1e-5F);
  EXPECT_EQ(stack.layers[0].shape.n_kv_heads, 2);
}

TEST(Granite, MultipliersAreRead) {
  const ModelConfig config = read("granite", R"({"embedding_multiplier":12.0,"attention_multiplier":0.0078125,
    "residual_multiplier":0.22,"logits_scaling":16})");
  EXPECT_EQ(config.embedding_scale, 12.0F);
  EXPECT_EQ(config.logit_scale, 0.0625F);
  EXPECT_EQ(config.stack.residual_scale, 0.22F);
  EXPECT_EQ(config.stack.layers[1].shape.scale, 0.0078125F);
  EXPECT_EQ(read("granite", "{}").stack.layers[0].shape.scale, 1.0F);  // of the class, whatever a head's size
  expect_error([] { read("granite", R"({"logits_scaling":0})"); }, {"logits_scaling", "found 0"});
  expect_error([] { read("granite", R"({"residual_multiplier":"half"})"); }, {"residual_multiplier", "a number"});
}

TEST(Glm4, LeavesMuchToTheClass) {
  const ModelConfig config = read("glm4", R"({"head_dim":"<absent>","num_key_value_heads":"<absent>",
    "rms_norm_eps":"<absent>","eos_token_id":"<absent>","vocab_size":151552})");
  EXPECT_EQ(config.stop_ids, (std::vector<int32_t>{151329, 151336, 151338}));
  EXPECT_FLOAT_EQ(config.stack.norm_eps, 1.5625e-7F);
  EXPECT_TRUE(config.stack.output_norms && config.stack.qkv_bias && !config.stack.output_bias);
  EXPECT_EQ(config.stack.layers[0].shape.head_dim, 128);
  EXPECT_EQ(config.stack.layers[0].rope.rotary_dim(128), 64);
  expect_error([] { read("glm4", R"({"partial_rotary_factor":0.3})"); }, {"partial_rotary_factor", "even number"});
}

TEST(GptOss, LeavesMuchToTheClass) {
  const ModelConfig config = read("gpt_oss", R"({"head_dim":"<absent>","num_key_value_heads":"<absent>",
    "num_attention_heads":8,"num_hidden_layers":3,"rms_norm_eps":"<absent>","rope_theta":"<absent>",
    "max_position_embeddings":131072})");
  const StackConfig& stack = config.stack;
  EXPECT_TRUE(stack.sinks && stack.qkv_bias && stack.output_bias && stack.moe);
  for (int32_t i = 0; i < 3; ++i) EXPECT_EQ(stack.layers[i].window, i % 2 == 0 ? 128 : 0);
  const LayerAttention& layer = stack.layers[0];
  EXPECT_TRUE(layer.shape.n_kv_heads == 8 && layer.shape.head_dim == 64);
  EXPECT_TRUE(layer.rope.theta == 150000 && layer.rope.factor == 32 && !layer.rope.truncate);
  EXPECT_EQ(config.max_positions, 131072);
  EXPECT_EQ(stack.moe->n_experts, 128);
  EXPECT_EQ(stack.moe->intermediate, 12);
  EXPECT_TRUE(stack.moe->routing.top_k == 4 && stack.moe->routing.normalise);
  EXPECT_EQ(stack.moe->gate, (ClampedGate{7.0F, 1.702F}));
  expect_error([] { read("gpt_oss", R"({"swiglu_limit":0})"); }, {"swiglu_limit", "found 0"});
  expect_error([] { read("gpt_oss", R"({"num_local_experts":2})"); }, {"num_experts_per_tok", "num_local_experts"});
}

// The words of Phi-4-mini that matter, with fewer frequencies.
constexpr const char* kLongRope = R"({"max_position_embeddings":128,"original_max_position_embeddings":32,
  "partial_rotary_factor":0.5,"head_dim":8,"sliding_window":null,
  "rope_scaling":{"type":"longrope","short_factor":[1.0,1.5],"long_factor":[2.0,3.0]}})";

TEST(Phi3, LongRopeEndsAtTheLengthOfTraining) {
  const ModelConfig config = read("phi3", kLongRope);
  EXPECT_EQ(config.max_positions, 32);
  const RopeConfig& rope = config.stack.layers[0].rope;
  EXPECT_EQ(rope.scaling, RopeConfig::Scaling::kFactors);
  EXPECT_EQ(rope.factors, (std::vector<float>{1.0F, 1.5F}));
  EXPECT_EQ(rope.theta, 1000.0);
  EXPECT_DOUBLE_EQ(rope.attention_factor, std::sqrt(1 + std::log(4.0) / std::log(32.0)));
  EXPECT_EQ(config.stack.layers[0].window, 0);
  EXPECT_EQ(read("phi3", R"({"sliding_window":9})").stack.layers[1].window, 9);
}

TEST(Phi3, RefusesOtherRopes) {
  const auto refuse = [](const std::string& scaling, const std::vector<std::string>& parts) {
    Json config = patched(tiny_config("phi3"), kLongRope);
    config["rope_scaling"] = parse_json(scaling, "scaling");
    expect_error([&] { read(config); }, parts);
  };
  refuse(R"({"type":"dynamic","factor":2})", {"rope_type", "longrope"});
  refuse(R"({"type":"longrope","long_factor":[1,1]})", {"short_factor"});
  refuse(R"({"type":"longrope","short_factor":[1],"long_factor":[1,1]})", {"short_factor", "2 positive numbers"});
  refuse(R"({"type":"longrope","short_factor":[1,1],"long_factor":[1,1,1]})", {"long_factor", "2 positive numbers"});
  refuse(R"({"type":"longrope","short_factor":[1,0],"long_factor":[1,1]})", {"short_factor", "positive"});
}

}  // namespace
}  // namespace ashlar::testing
