// SPDX-License-Identifier: Apache-2.0
// What published config.json files of the families say, and how they are refused where the model would differ. Values
// of whole models are compared with transformers by the goldens of tests/data/families.

#include <cmath>

#include "unit/model/tiny_model.h"

namespace ashlar::testing {
namespace {

ModelConfig read_family(const Json& config) { return read_config_json(config, "here"); }
ModelConfig read_family(const std::string& family, const std::string& patch) {
  return read_family(patched(tiny_config(family), patch));
}

TEST(SmolLm3, EveryFourthLayerHasNoRope) {
  const ModelConfig config = read_family("smollm3", R"({"num_hidden_layers":8,"rope_theta":"<absent>",
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
  expect_error([] { read_family("smollm3", R"({"no_rope_layers":[1]})"); }, {"no_rope_layers", "2 entries"});
  expect_error([] { read_family("smollm3", R"({"no_rope_layers":[1,2]})"); }, {"no_rope_layers"});
  expect_error([] { read_family("smollm3", R"({"no_rope_layer_interval":0})"); },
               {"no_rope_layer_interval", "found 0"});
}

TEST(Olmo2, NormsComeAfterAndAreWide) {
  const ModelConfig config = read_family("olmo2", R"({"rms_norm_eps":"<absent>","num_key_value_heads":null})");
  const StackConfig& stack = config.stack;
  EXPECT_TRUE(!stack.input_norms && stack.output_norms && stack.qk_norm && stack.wide_qk_norm);
  EXPECT_FLOAT_EQ(stack.norm_eps, 1e-5F);
  EXPECT_EQ(stack.layers[0].shape.n_kv_heads, 2);
}

TEST(Granite, MultipliersAreRead) {
  const ModelConfig config = read_family("granite", R"({"embedding_multiplier":12.0,"attention_multiplier":0.0078125,
    "residual_multiplier":0.22,"logits_scaling":16})");
  EXPECT_EQ(config.embedding_scale, 12.0F);
  EXPECT_EQ(config.logit_scale, 0.0625F);
  EXPECT_EQ(config.stack.residual_scale, 0.22F);
  EXPECT_EQ(config.stack.layers[1].shape.scale, 0.0078125F);
  EXPECT_EQ(read_family("granite", "{}").stack.layers[0].shape.scale, 1.0F);  // of the class, whatever a head's size
  expect_error([] { read_family("granite", R"({"logits_scaling":0})"); }, {"logits_scaling", "found 0"});
  expect_error([] { read_family("granite", R"({"residual_multiplier":"half"})"); },
               {"residual_multiplier", "a number"});
}

TEST(Glm4, LeavesMuchToTheClass) {
  const ModelConfig config = read_family("glm4", R"({"head_dim":"<absent>","num_key_value_heads":"<absent>",
    "rms_norm_eps":"<absent>","eos_token_id":"<absent>","vocab_size":151552})");
  EXPECT_EQ(config.stop_ids, (std::vector<int32_t>{151329, 151336, 151338}));
  EXPECT_FLOAT_EQ(config.stack.norm_eps, 1.5625e-7F);
  EXPECT_TRUE(config.stack.output_norms && config.stack.qkv_bias && !config.stack.output_bias);
  EXPECT_EQ(config.stack.layers[0].shape.head_dim, 128);
  EXPECT_EQ(config.stack.layers[0].rope.rotary_dim(128), 64);
  expect_error([] { read_family("glm4", R"({"partial_rotary_factor":0.3})"); },
               {"partial_rotary_factor", "even number"});
}

TEST(GptOss, LeavesMuchToTheClass) {
  const ModelConfig config = read_family("gpt_oss", R"({"head_dim":"<absent>","num_key_value_heads":"<absent>",
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
  EXPECT_EQ(stack.moe->gate, (ExpertGate{7.0F, 1.702F}));
  expect_error([] { read_family("gpt_oss", R"({"swiglu_limit":0})"); }, {"swiglu_limit", "found 0"});
  expect_error([] { read_family("gpt_oss", R"({"num_local_experts":2})"); },
               {"num_experts_per_tok", "num_local_experts"});
}

// The words of a small model that matter, within one that sees; the rest is the class's.
Json gemma4_config(const std::string& change) {
  Json config = Json::parse(R"({"model_type": "gemma4", "text_config": {"hidden_size": 1536, "intermediate_size": 6144,
    "num_hidden_layers": 35, "num_key_value_heads": 1, "num_kv_shared_layers": 20, "use_double_wide_mlp": true,
    "final_logit_softcapping": 30.0, "use_bidirectional_attention": "vision"}})");
  Json& types = config["text_config"]["layer_types"] = Json::array();
  for (int32_t i = 1; i <= 35; ++i) types.push_back(i % 5 == 0 ? "full_attention" : "sliding_attention");
  config["text_config"].update(Json::parse(change));
  return config;
}

TEST(Gemma4, LeavesMuchToTheClass) {
  const ModelConfig config = read_family(gemma4_config("{}"));
  const StackConfig& stack = config.stack;
  EXPECT_EQ(config.logit_softcap, 30.0F);
  EXPECT_EQ(config.stop_ids, std::vector<int32_t>{1});
  EXPECT_TRUE(config.tied_head && stack.value_norm && stack.layer_scale && stack.qk_norm && !stack.norms_from_one);
  ASSERT_TRUE(stack.layer_embedding);
  EXPECT_TRUE(stack.layer_embedding->width == 256 && stack.layer_embedding->vocab == 262144);
  for (int32_t i = 0; i < 35; ++i) {
    const LayerAttention& layer = stack.layers[i];
    const bool full = i % 5 == 4;
    EXPECT_EQ(layer.window, full ? 0 : 512) << i;
    EXPECT_EQ(layer.shape.head_dim, full ? 512 : 256) << i;
    EXPECT_TRUE(layer.shape.scale == 1 && layer.shape.n_kv_heads == 1 && !layer.values_are_keys) << i;
    EXPECT_EQ(layer.rope.theta, full ? 1e6 : 1e4) << i;
    EXPECT_EQ(layer.rope.scaling, full ? RopeConfig::Scaling::kProportional : RopeConfig::Scaling::kNone) << i;
    EXPECT_EQ(layer.rope.rotary_dim(layer.shape.head_dim), layer.shape.head_dim) << i;
    EXPECT_EQ(layer.kv_of, i < 15 ? -1 : full ? 14 : 13) << i;
    EXPECT_EQ(stack.mlp_width(i), i < 15 ? 6144 : 12288) << i;
  }
  // As the dense models have it, whose heads differ in number as well; and the last layer sees everything.
  const ModelConfig dense = read_family(gemma4_config(R"({"attention_k_eq_v": true, "num_global_key_value_heads": 2,
    "num_key_value_heads": 4, "hidden_size_per_layer_input": null, "num_kv_shared_layers": 0, "global_head_dim": 128,
    "num_hidden_layers": 2, "layer_types": ["sliding_attention", "sliding_attention"]})"));
  EXPECT_FALSE(dense.stack.layer_embedding);
  EXPECT_EQ(dense.stack.layers[0].shape.n_kv_heads, 4);
  EXPECT_TRUE(dense.stack.layers[1].window == 0 && dense.stack.layers[1].values_are_keys);
  EXPECT_TRUE(dense.stack.layers[1].shape.n_kv_heads == 2 && dense.stack.layers[1].shape.head_dim == 128);
  EXPECT_FALSE(dense.stack.moe);
  const StackConfig mixture = read_family(gemma4_config(R"({"enable_moe_block": true, "num_experts": 128,
    "top_k_experts": 8, "moe_intermediate_size": 704})"))
                                  .stack;
  ASSERT_TRUE(mixture.moe);
  EXPECT_TRUE(mixture.moe->with_dense && mixture.moe->gate.gelu && mixture.moe->routing.normalise);
  EXPECT_TRUE(mixture.moe->n_experts == 128 && mixture.moe->routing.top_k == 8 && mixture.moe->intermediate == 704);
}

// As transformers 5 saves the layers that see everything: numbers have as many digits as the last one.
TEST(Gemma4, ReadsLayersByNumber) {
  const StackConfig published = read_family(gemma4_config("{}")).stack;
  for (const int width : {1, 2}) {
    Json sizes = Json::object();
    for (int32_t i = 4; i < 35; i += 5) {
      const std::string number = std::to_string(i);
      sizes[number.size() < static_cast<size_t>(width) ? "0" + number : number] = {{"head_dim", 512}};
    }
    const StackConfig saved = read_family(gemma4_config(Json{{"per_layer_config", sizes}}.dump())).stack;
    for (size_t i = 0; i < 35; ++i) EXPECT_EQ(saved.layers[i].shape, published.layers[i].shape) << i;
  }
}

TEST(Gemma4, IsRefusedWhereItWouldDiffer) {
  const std::pair<const char*, std::vector<std::string>> broken[] = {
      {R"({"enable_moe_block": true})", {"num_experts", "found nothing"}},
      {R"({"enable_moe_block": true, "num_experts": 4, "moe_intermediate_size": 8, "top_k_experts": 5})",
       {"top_k_experts", "at most num_experts"}},
      {R"({"attention_bias": true})", {"attention_bias", "false"}},
      {R"({"use_bidirectional_attention": "all"})", {"use_bidirectional_attention", "vision"}},
      {R"({"hidden_activation": "silu"})", {"hidden_activation", "gelu_pytorch_tanh"}},
      {R"({"final_logit_softcapping": -1})", {"final_logit_softcapping", "found -1"}},
      {R"({"num_kv_shared_layers": 35})", {"num_kv_shared_layers", "34"}},
      {R"({"num_kv_shared_layers": 31})", {"num_kv_shared_layers", "one of each kind"}},
      {R"({"global_head_dim": 1024})", {"global_head_dim", "512"}},
      {R"({"global_head_dim": 33})", {"global_head_dim", "even"}},
      {R"({"attention_k_eq_v": true, "num_global_key_value_heads": 3})", {"num_global_key_value_heads", "divisor"}},
      {R"({"vocab_size_per_layer_input": 1000})", {"vocab_size_per_layer_input", "262144"}},
      {R"({"per_layer_config": {"0": {"intermediate_size": 8}}})", {"intermediate_size", "heads alone"}},
      {R"({"per_layer_config": {"35": {"head_dim": 8}}})", {"35", "from 0 to 34"}},
      {R"({"per_layer_config": {"-1": {"head_dim": 8}}})", {"-1", "from 0 to 34"}},
      {R"({"per_layer_config": {"4": {"head_dim": 8}, "04": {"head_dim": 8}}})", {"4", "each once"}},
      {R"({"per_layer_config": {"4": {"head_dim": 7}}})", {"head_dim", "even"}},
      {R"({"rope_parameters": {"full_attention": {"rope_theta": 10000}}})", {"sliding_attention"}},
      {R"({"rope_parameters": {"full_attention": {"rope_theta": 1e4, "rope_type": "yarn"},
          "sliding_attention": {"rope_theta": 1e4}}})",
       {"rope_type", "proportional"}},
      {R"({"layer_types": ["full_attention"]})", {"layer_types", "35 entries"}}};
  for (const auto& [change, parts] : broken) expect_error([&] { read_family(gemma4_config(change)); }, parts);
}

ModelConfig read_lfm2(const std::string& change) {
  Json config = Json::parse(R"({"model_type": "lfm2", "hidden_size": 2048, "num_hidden_layers": 4,
    "block_ff_dim": 12288, "full_attn_idxs": [2], "conv_L_cache": 3, "norm_eps": 1e-05})");
  config.update(Json::parse(change));
  return read_family(config);
}

TEST(Lfm2, LeavesMuchToTheClass) {
  const ModelConfig config = read_lfm2("{}");
  const StackConfig& stack = config.stack;
  EXPECT_TRUE(config.tied_head && stack.qk_norm);
  EXPECT_EQ(config.vocab, 65536);
  EXPECT_EQ(config.stop_ids, std::vector<int32_t>{2});
  EXPECT_EQ(stack.intermediate, 8192);  // two thirds
  EXPECT_FLOAT_EQ(stack.norm_eps, 1e-5F);
  ASSERT_TRUE(stack.short_conv);
  EXPECT_EQ(stack.short_conv->shape, (ShortConvShape{2048, 3}));
  EXPECT_FALSE(stack.short_conv->bias);
  for (int32_t i = 0; i < 4; ++i) EXPECT_EQ(stack.is_attention(i), i == 2) << i;
  EXPECT_EQ(stack.layers[2].rope.theta, 1e6);
  EXPECT_TRUE(stack.layers[2].shape.n_kv_heads == 8 && stack.layers[2].shape.head_dim == 64);
  EXPECT_EQ(read_lfm2(R"({"block_ffn_dim_multiplier": 1.01})").stack.intermediate, 8448);
  EXPECT_EQ(read_lfm2(R"({"block_auto_adjust_ff_dim": false})").stack.intermediate, 12288);
  EXPECT_FALSE(read_lfm2(R"({"tie_embedding": false})").tied_head);
  EXPECT_FALSE(read_lfm2(R"({"tie_word_embeddings": false})").tied_head);
  EXPECT_FALSE(read_lfm2(R"({"full_attn_idxs": null})").stack.short_conv);  // attention everywhere, as the class has it
}

TEST(Lfm2, IsRefusedWhereItMakesNoSense) {
  expect_error([] { read_lfm2(R"({"conv_L_cache": 17})"); }, {"conv_L_cache", "16"});
  expect_error([] { read_lfm2(R"({"full_attn_idxs": [4]})"); }, {"full_attn_idxs"});
  expect_error([] { read_lfm2(R"({"layer_types": ["conv"]})"); }, {"layer_types", "4 entries"});
  expect_error([] { read_lfm2(R"({"layer_types": ["conv", "conv", "mamba", "conv"]})"); }, {"layer_types", "or conv"});
  expect_error([] { read_lfm2(R"({"block_multiple_of": 0})"); }, {"block_multiple_of"});
}

ModelConfig read_lfm2_moe(const std::string& change) {
  Json config = Json::parse(R"({"model_type": "lfm2_moe", "hidden_size": 2048, "num_hidden_layers": 4,
    "layer_types": ["conv", "conv", "full_attention", "conv"], "num_dense_layers": 1, "norm_eps": 1e-05})");
  config.update(Json::parse(change));
  return read_family(config);
}

TEST(Lfm2Moe, LeavesMuchToTheClass) {
  const StackConfig stack = read_lfm2_moe("{}").stack;
  EXPECT_EQ(stack.intermediate, 7168);  // as it is said
  ASSERT_TRUE(stack.short_conv && stack.moe);
  EXPECT_EQ(stack.moe->layers, (std::vector<bool>{false, true, true, true}));
  EXPECT_TRUE(stack.moe->n_experts == 32 && stack.moe->intermediate == 1792 && stack.moe->routing.top_k == 4);
  EXPECT_TRUE(stack.moe->expert_bias && stack.moe->routing.normalise);
  EXPECT_EQ(stack.moe->routing.score, Routing::Score::kSigmoid);
  EXPECT_EQ(stack.moe->shared_intermediate, 0);
  EXPECT_FALSE(read_lfm2_moe(R"({"use_expert_bias": false})").stack.moe->expert_bias);
  EXPECT_TRUE(read_lfm2_moe("{}").tied_head);
}

TEST(Lfm2Moe, IsRefusedWhereItMakesNoSense) {
  expect_error([] { read_lfm2_moe(R"({"num_dense_layers": 5})"); }, {"num_dense_layers", "4"});
  expect_error([] { read_lfm2_moe(R"({"num_experts_per_tok": 33})"); }, {"num_experts_per_tok"});
  expect_error([] { read_lfm2_moe(R"({"num_experts": 0})"); }, {"num_experts"});
  expect_error([] { read_lfm2_moe(R"({"layer_types": ["conv"]})"); }, {"layer_types", "4 entries"});
}

ModelConfig read_glm4_moe(const std::string& change) {
  Json config = Json::parse(R"({"model_type": "glm4_moe", "num_hidden_layers": 3, "head_dim": 128})");
  config.update(Json::parse(change));
  return read_family(config);
}

TEST(Glm4Moe, LeavesMuchToTheClass) {
  const ModelConfig config = read_glm4_moe("{}");
  const StackConfig& stack = config.stack;
  EXPECT_TRUE(stack.hidden == 4096 && stack.intermediate == 10944 && stack.norm_eps == 1e-5F);
  EXPECT_FALSE(stack.qkv_bias || stack.qk_norm || config.tied_head);
  EXPECT_TRUE(stack.layers[0].shape.n_heads == 96 && stack.layers[0].shape.n_kv_heads == 8);
  EXPECT_EQ(stack.layers[0].rope.rotary_dim(128), 64);
  ASSERT_TRUE(stack.moe);
  EXPECT_EQ(stack.moe->layers, (std::vector<bool>{false, true, true}));
  EXPECT_TRUE(stack.moe->n_experts == 128 && stack.moe->intermediate == 1408 && stack.moe->routing.top_k == 8);
  EXPECT_TRUE(stack.moe->expert_bias && stack.moe->routing.normalise && stack.moe->routing.n_groups == 1);
  EXPECT_EQ(stack.moe->routing.score, Routing::Score::kSigmoid);
  EXPECT_TRUE(stack.moe->shared_intermediate == 1408 && !stack.moe->shared_gate);
  EXPECT_TRUE(config.mtp.layers == 1 && config.mtp_prefix() == "model.layers.3.");
  EXPECT_TRUE(config.is_unused("model.layers.3.enorm.weight") && !config.is_unused("model.layers.2.mlp.gate.weight"));
  EXPECT_FALSE(config.is_unused("model.layers.30.enorm.weight") || config.is_unused("model.layers.4.enorm.weight"));
  const ModelConfig other = read_glm4_moe(R"({"num_nextn_predict_layers": 2, "attention_bias": true,
    "use_qk_norm": true, "first_k_dense_replace": 3, "n_shared_experts": 2, "partial_rotary_factor": 1.0})");
  EXPECT_TRUE(other.is_unused("model.layers.4.enorm.weight") && other.stack.qkv_bias && other.stack.qk_norm);
  EXPECT_EQ(other.stack.moe->layers, std::vector<bool>(3));
  EXPECT_EQ(other.stack.moe->shared_intermediate, 2816);
  EXPECT_EQ(other.stack.layers[0].rope.rotary_dim(128), 128);
}

TEST(Glm4Moe, IsRefusedWhereItMakesNoSense) {
  const std::pair<const char*, std::vector<std::string>> broken[] = {
      {R"({"first_k_dense_replace": 4})", {"first_k_dense_replace", "3"}},
      {R"({"n_routed_experts": 0})", {"n_routed_experts"}},
      {R"({"num_experts_per_tok": 129})", {"num_experts_per_tok"}},
      {R"({"n_routed_experts": 6})", {"num_experts_per_tok", "at most n_routed_experts"}},
      {R"({"n_group": 3})", {"n_group", "a divisor of the number of experts, 128"}},
      {R"({"n_group": 32, "topk_group": 1})", {"num_experts_per_tok", "topk_group"}},
      {R"({"topk_group": 2})", {"topk_group"}},
      {R"({"routed_scaling_factor": -1})", {"routed_scaling_factor"}},
      {R"({"norm_topk_prob": 1})", {"norm_topk_prob", "true or false"}},
      {R"({"hidden_act": "gelu"})", {"hidden_act", "silu"}},
      {R"({"partial_rotary_factor": 0.01})", {"partial_rotary_factor"}},
      {R"({"num_nextn_predict_layers": -1})", {"num_nextn_predict_layers"}}};
  for (const auto& [change, parts] : broken) expect_error([&] { read_glm4_moe(change); }, parts);
}

ModelConfig read_olmo3(const std::string& change) {
  const Json usual = patched(tiny_config("olmo3"), R"({"num_hidden_layers":4,"rope_theta":"<absent>"})");
  return read_family(patched(usual, change));
}

TEST(Olmo3, RotatesLayersWithAWindowByThePlainRope) {
  const char* const scaled = R"({"sliding_window":9,"rope_theta":7000.0,"rope_scaling":{"rope_type":"yarn",
    "factor":8.0,"original_max_position_embeddings":32}})";
  const char* const by_kind = R"({"sliding_window":9,"rope_parameters":{
    "full_attention":{"rope_type":"yarn","rope_theta":7000.0,"factor":8.0,"original_max_position_embeddings":32},
    "sliding_attention":{"rope_type":"default","rope_theta":7000.0}}})";
  for (const char* spelling : {scaled, by_kind}) {
    const ModelConfig config = read_olmo3(spelling);
    EXPECT_EQ(config.max_positions, 256);
    EXPECT_FALSE(config.stack.input_norms);
    for (int32_t i = 0; i < 4; ++i) {
      const LayerAttention& layer = config.stack.layers[i];
      EXPECT_EQ(layer.window, i == 3 ? 0 : 9) << i;
      EXPECT_EQ(layer.rope.scaling, i == 3 ? RopeConfig::Scaling::kYarn : RopeConfig::Scaling::kNone) << i;
      EXPECT_EQ(layer.rope.theta, 7000.0) << i;
    }
  }
  const ModelConfig usual = read_olmo3("{}");
  EXPECT_EQ(usual.stack.layers[0].window, 4096);
  EXPECT_EQ(usual.stack.layers[0].rope.theta, 500000.0);
  expect_error(
      [] {
        read_olmo3(R"({"rope_parameters":{"full_attention":{"rope_type":"default","rope_theta":1e4},
          "sliding_attention":{"rope_type":"linear","factor":2.0,"rope_theta":1e4}}})");
      },
      {"rope_type", "default"});
  expect_error([] { read_olmo3(R"({"layer_types":["full_attention"]})"); }, {"layer_types", "4 entries"});
}

// Both text models that are published within one that sees, and by themselves.
TEST(Ministral3, QueriesGrowWithThePosition) {
  const char* const sizes = R"({"rope_theta":"<absent>","head_dim":"<absent>","num_key_value_heads":1,
    "max_position_embeddings":1000})";
  const auto within = [&](const Json& text) {
    return read_family(Json{{"model_type", "mistral3"}, {"text_config", text}, {"eos_token_id", 2}});
  };
  const Json ministral = patched(tiny_config("ministral3"), sizes), mistral = patched(tiny_config("mistral"), sizes);
  for (const ModelConfig& config : {read_family(ministral), within(ministral)}) {
    EXPECT_EQ(config.max_positions, 262144);  // what its rope is stretched to
    const LayerAttention& layer = config.stack.layers[1];
    EXPECT_TRUE(layer.window == 0 && layer.shape.head_dim == 128 && layer.rope.theta == 1e6);
    EXPECT_TRUE(layer.rope.query_growth == 0.1 && layer.rope.original_max_positions == 16384);
    EXPECT_EQ(layer.rope.attention_factor, 1.0);
  }
  EXPECT_FLOAT_EQ(read_family(patched(ministral, R"({"rms_norm_eps":"<absent>"})")).stack.norm_eps, 1e-5F);
  const RopeConfig old = read_family(patched(ministral, R"({"rope_scaling":{"rope_type":"yarn","factor":8.0,
    "rope_theta":5e4,"original_max_position_embeddings":8192,"llama_4_scaling_beta":0.2}})"))
                             .stack.layers[0]
                             .rope;
  EXPECT_TRUE(old.query_growth == 0.2 && old.original_max_positions == 8192 && old.factor == 8 && old.theta == 5e4);
  const ModelConfig plain = within(patched(mistral, R"({"sliding_window":null,"rope_theta":5e4})"));
  EXPECT_TRUE(plain.stack.layers[0].rope.query_growth == 0 && plain.stack.layers[0].window == 0);
  EXPECT_EQ(plain.stack.layers[0].rope.scaling, RopeConfig::Scaling::kNone);
  EXPECT_STREQ(plain.names.embedding, "language_model.model.embed_tokens");

  expect_error([&] { within(patched(mistral, R"({"model_type":"mistral4"})")); }, {"model_type", "ministral3"});
  const std::pair<const char*, std::vector<std::string>> broken[] = {
      {R"({"rope_parameters":{"rope_type":"default"}})", {"llama_4_scaling_beta"}},
      {R"({"rope_parameters":{"llama_4_scaling_beta":-1}})", {"llama_4_scaling_beta", "found -1"}},
      {R"({"rope_parameters":{"llama_4_scaling_beta":0.1}})", {"original_max_position_embeddings"}},
      {R"({"rope_parameters":7})", {"rope_parameters"}}};
  for (const auto& [change, parts] : broken) {
    expect_error([&] { read_family(patched(ministral, change)); }, parts);
  }
}

// The words of Phi-4-mini that matter, with fewer frequencies.
constexpr const char* kLongRope = R"({"max_position_embeddings":128,"original_max_position_embeddings":32,
  "partial_rotary_factor":0.5,"head_dim":8,"sliding_window":null,
  "rope_scaling":{"type":"longrope","short_factor":[1.0,1.5],"long_factor":[2.0,3.0]}})";

TEST(Phi3, LongRopeEndsAtTheLengthOfTraining) {
  const ModelConfig config = read_family("phi3", kLongRope);
  EXPECT_EQ(config.max_positions, 32);
  const RopeConfig& rope = config.stack.layers[0].rope;
  EXPECT_EQ(rope.scaling, RopeConfig::Scaling::kFactors);
  EXPECT_EQ(rope.factors, (std::vector<float>{1.0F, 1.5F}));
  EXPECT_EQ(rope.theta, 1000.0);
  EXPECT_DOUBLE_EQ(rope.attention_factor, std::sqrt(1 + std::log(4.0) / std::log(32.0)));
  EXPECT_EQ(config.stack.layers[0].window, 0);
  EXPECT_EQ(read_family("phi3", R"({"sliding_window":9})").stack.layers[1].window, 9);
}

TEST(Phi3, RefusesOtherRopes) {
  const auto refuse = [](const std::string& scaling, const std::vector<std::string>& parts) {
    Json config = patched(tiny_config("phi3"), kLongRope);
    config["rope_scaling"] = parse_json(scaling, "scaling");
    expect_error([&] { read_family(config); }, parts);
  };
  refuse(R"({"type":"dynamic","factor":2})", {"rope_type", "longrope"});
  refuse(R"({"type":"longrope","long_factor":[1,1]})", {"short_factor"});
  refuse(R"({"type":"longrope","short_factor":[1],"long_factor":[1,1]})", {"short_factor", "2 positive numbers"});
  refuse(R"({"type":"longrope","short_factor":[1,1],"long_factor":[1,1,1]})", {"long_factor", "2 positive numbers"});
  refuse(R"({"type":"longrope","short_factor":[1,0],"long_factor":[1,1]})", {"short_factor", "positive"});
}

}  // namespace
}  // namespace ashlar::testing
