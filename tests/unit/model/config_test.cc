// SPDX-License-Identifier: Apache-2.0
#include "model/config.h"

#include "unit/model/tiny_model.h"

namespace ashlar::testing {
namespace {

ModelConfig read(const Json& config, const std::string& generation = "") {
  const TempFolder folder;
  folder.write("config.json", config.dump());
  if (!generation.empty()) folder.write("generation_config.json", generation);
  return read_model_config(folder.path());
}

TEST(ModelConfig, ReadsSharedFields) {
  const ModelConfig config = read(tiny_config());
  EXPECT_EQ(config.family, "qwen3");
  EXPECT_EQ(config.vocab, 20);
  EXPECT_EQ(config.max_positions, 64);
  EXPECT_FALSE(config.tied_head);
  EXPECT_EQ(config.stop_ids, std::vector<int32_t>{3});
  const StackConfig& stack = config.stack;
  EXPECT_EQ(stack.hidden, 8);
  EXPECT_EQ(stack.intermediate, 12);
  EXPECT_EQ(stack.n_layers, 2);
  EXPECT_EQ(stack.layers[0].shape.n_heads, 2);
  EXPECT_EQ(stack.layers[0].shape.n_kv_heads, 1);
  EXPECT_EQ(stack.layers[0].shape.head_dim, 4);
  EXPECT_FLOAT_EQ(stack.layers[0].shape.scale, 0.5F);
  EXPECT_FLOAT_EQ(stack.norm_eps, 1e-5F);
  EXPECT_EQ(stack.layers[0].rope.theta, 1000.0);
  EXPECT_EQ(stack.layers[0].rope.scaling, RopeConfig::Scaling::kNone);
  for (const LayerAttention& layer : stack.layers) {
    EXPECT_EQ(layer, stack.layers[0]);
    EXPECT_TRUE(layer.window == 0 && layer.causal);
  }
}

TEST(ModelConfig, FamiliesDifferInNormsAndBiases) {
  const StackConfig qwen3 = read(tiny_config("qwen3")).stack;
  EXPECT_TRUE(qwen3.qk_norm && !qwen3.qkv_bias && !qwen3.output_bias && !qwen3.mlp_bias);
  const StackConfig qwen2 = read(tiny_config("qwen2")).stack;
  EXPECT_TRUE(!qwen2.qk_norm && qwen2.qkv_bias && !qwen2.output_bias && !qwen2.mlp_bias);
  const StackConfig llama = read(tiny_config("llama")).stack;
  EXPECT_TRUE(!llama.qk_norm && !llama.qkv_bias && !llama.output_bias && !llama.mlp_bias);
  const StackConfig biased = read(patched(tiny_config("llama"), R"({"attention_bias":true,"mlp_bias":true})")).stack;
  EXPECT_TRUE(!biased.qk_norm && biased.qkv_bias && biased.output_bias && biased.mlp_bias);
  const StackConfig biased_qwen3 = read(patched(tiny_config("qwen3"), R"({"attention_bias":true})")).stack;
  EXPECT_TRUE(biased_qwen3.qk_norm && biased_qwen3.qkv_bias && biased_qwen3.output_bias);
}

TEST(ModelConfig, DiffusionModelsHaveBlocksAndAMask) {
  EXPECT_FALSE(read(tiny_config("qwen3")).diffusion);
  const ModelConfig stated = read(patched(tiny_config("sdar"), R"({"block_size":8,"mask_token_id":19})"));
  ASSERT_TRUE(stated.diffusion);
  EXPECT_EQ(stated.diffusion->block_size, 8);
  EXPECT_EQ(stated.diffusion->mask_id, 19);
  EXPECT_EQ(stated.diffusion->token_shift, 0);
  EXPECT_TRUE(stated.stack.qk_norm);
  for (const LayerAttention& layer : stated.stack.layers) EXPECT_FALSE(layer.causal);
  // Published checkpoints leave both to the code that runs them.
  const ModelConfig usual = read(patched(tiny_config("sdar"), R"({"vocab_size":151936})"));
  EXPECT_EQ(usual.diffusion->block_size, 4);
  EXPECT_EQ(usual.diffusion->mask_id, 151669);
}

TEST(ModelConfig, MissingFieldsMeanTheClassDefaults) {
  const ModelConfig config =
      read(patched(tiny_config("llama"), R"({"num_key_value_heads":"<absent>","head_dim":"<absent>",
    "rms_norm_eps":"<absent>","rope_theta":"<absent>","hidden_act":"<absent>","tie_word_embeddings":"<absent>",
    "eos_token_id":"<absent>"})"));
  EXPECT_EQ(config.stack.layers[0].shape.n_kv_heads, 2);
  EXPECT_EQ(config.stack.layers[0].shape.head_dim, 4);
  EXPECT_FLOAT_EQ(config.stack.norm_eps, 1e-6F);
  EXPECT_EQ(config.stack.layers[0].rope.theta, 10000.0);
  EXPECT_FALSE(config.tied_head);
  EXPECT_EQ(config.stop_ids, std::vector<int32_t>{2});
  EXPECT_EQ(read(patched(tiny_config("llama"), R"({"head_dim":null})")).stack.layers[0].shape.head_dim, 4);
}

TEST(ModelConfig, StopIdsComeFromTheGenerationConfigFirst) {
  using Ids = std::vector<int32_t>;
  const Json config = patched(tiny_config(), R"({"eos_token_id":[5,6]})");
  EXPECT_EQ(read(config).stop_ids, Ids({5, 6}));
  EXPECT_EQ(read(config, R"({"eos_token_id":[1,19,2]})").stop_ids, Ids({1, 19, 2}));
  EXPECT_EQ(read(config, R"({"eos_token_id":7})").stop_ids, Ids({7}));
  EXPECT_EQ(read(config, R"({"eos_token_id":null})").stop_ids, Ids({5, 6}));
  EXPECT_EQ(read(config, "{}").stop_ids, Ids({5, 6}));
  expect_error([&] { read(config, R"({"eos_token_id":20})"); },
               {"generation_config.json", "eos_token_id", "0 to 19", "20"});
  expect_error([&] { read(config, "[]"); }, {"generation_config.json", "object"});
  expect_error([&] { read(config, "{"); }, {"generation_config.json", "not valid JSON"});
}

TEST(ModelConfig, SlidingLayers) {
  const auto windows = [](const std::string& patch) {
    std::vector<int32_t> result;
    for (const LayerAttention& layer : read(patched(tiny_config(), patch)).stack.layers) {
      EXPECT_TRUE(layer.causal);
      result.push_back(layer.window);
    }
    return result;
  };
  using Windows = std::vector<int32_t>;
  EXPECT_EQ(windows(R"({"sliding_window":9})"), Windows({0, 0}));
  EXPECT_EQ(windows(R"({"sliding_window":9,"use_sliding_window":false})"), Windows({0, 0}));
  EXPECT_EQ(windows(R"({"sliding_window":9,"use_sliding_window":true,"max_window_layers":0})"), Windows({9, 9}));
  EXPECT_EQ(windows(R"({"sliding_window":9,"use_sliding_window":true,"max_window_layers":1})"), Windows({0, 9}));
  EXPECT_EQ(windows(R"({"sliding_window":9,"use_sliding_window":true,"max_window_layers":5})"), Windows({0, 0}));
  EXPECT_EQ(windows(R"({"sliding_window":9,"use_sliding_window":true})"), Windows({0, 0}));  // the default is 28
  EXPECT_EQ(
      windows(R"({"sliding_window":9,"use_sliding_window":true,"layer_types":["sliding_attention","full_attention"]})"),
      Windows({9, 0}));
}

// Qwen3-MoE slides everywhere or nowhere; Llama has no windows, whatever else its config.json says.
TEST(ModelConfig, WhichLayersSlideIsTheFamilys) {
  const auto windows = [](const char* family, const std::string& patch) {
    const Json moe = patched(tiny_config(family), R"({"num_experts":4,"num_experts_per_tok":2,"moe_intermediate_size":6,
      "sliding_window":9,"max_window_layers":1,"layer_types":["sliding_attention","full_attention"]})");
    std::vector<int32_t> result;
    for (const LayerAttention& layer : read(patched(moe, patch)).stack.layers) result.push_back(layer.window);
    return result;
  };
  using Windows = std::vector<int32_t>;
  EXPECT_EQ(windows("qwen3_moe", R"({"use_sliding_window":true})"), Windows({9, 9}));
  EXPECT_EQ(windows("qwen3_moe", R"({"use_sliding_window":false})"), Windows({0, 0}));
  EXPECT_EQ(windows("qwen3_moe", "{}"), Windows({0, 0}));
  EXPECT_EQ(windows("llama", R"({"use_sliding_window":true})"), Windows({0, 0}));
  EXPECT_EQ(windows("qwen3", R"({"use_sliding_window":true})"), Windows({9, 0}));
}

TEST(ModelConfig, LinearAndYarnScalingExtendTheContext) {
  const auto context = [](const std::string& patch, const char* family = "qwen3") {
    return read(patched(tiny_config(family), patch)).max_positions;
  };
  const std::string yarn =
      R"("rope_scaling":{"rope_type":"yarn","factor":4,"original_max_position_embeddings":32768}})";
  EXPECT_EQ(context(R"({"max_position_embeddings":32768,)" + yarn, "qwen2"), 131072);
  EXPECT_EQ(context(R"({"max_position_embeddings":40960,)" + yarn), 131072);
  EXPECT_EQ(context(R"({"max_position_embeddings":131072,)" + yarn), 131072);  // counted in already
  EXPECT_EQ(context(R"({"max_position_embeddings":262144,)" + yarn), 262144);
  EXPECT_EQ(context(R"({"rope_scaling":{"type":"yarn","factor":4}})"), 256);
  EXPECT_EQ(context(R"({"original_max_position_embeddings":32,"rope_scaling":{"type":"yarn","factor":4}})"), 128);
  EXPECT_EQ(context(R"({"rope_parameters":{"rope_type":"yarn","factor":1.5,"rope_theta":7}})"), 96);
  EXPECT_EQ(context(R"({"rope_scaling":{"type":"linear","factor":2.5}})"), 160);
  EXPECT_EQ(context(R"({"rope_scaling":{"type":"linear","factor":1.01}})"), 64);  // whole positions
  EXPECT_EQ(context(R"({"rope_parameters":{"rope_type":"linear","factor":4,"rope_theta":7}})"), 256);
  EXPECT_EQ(context(R"({"rope_scaling":{"rope_type":"llama3","factor":8,"low_freq_factor":1,"high_freq_factor":4,
      "original_max_position_embeddings":16}})"),
            64);
  EXPECT_EQ(context(R"({"rope_scaling":{"rope_type":"default","factor":8}})"), 64);
  EXPECT_EQ(context(R"({"rope_scaling":{"type":"linear","factor":262144}})"), 1 << 24);
  expect_error([&] { context(R"({"rope_scaling":{"type":"linear","factor":262145}})"); },
               {"rope_scaling", "at most 16777216 positions", "max_position_embeddings is 64", "262145"});
  expect_error([&] { context(R"({"rope_parameters":{"rope_type":"yarn","factor":1e9,"rope_theta":7}})"); },
               {"rope_parameters", "at most 16777216 positions"});
}

struct RopeCase {
  const char* patch;
  RopeConfig::Scaling scaling;
  double theta, factor, original;
};

TEST(RopeConfig, BothSpellingsMeanTheSame) {
  using Scaling = RopeConfig::Scaling;
  const RopeCase cases[] = {
      {R"({"rope_theta":5e5})", Scaling::kNone, 5e5, 1, 0},
      {R"({"rope_theta":"<absent>","rope_parameters":{"rope_theta":5e5}})", Scaling::kNone, 5e5, 1, 0},
      {R"({"rope_parameters":{"rope_type":"default"}})", Scaling::kNone, 1000, 1, 0},
      {R"({"rope_scaling":null})", Scaling::kNone, 1000, 1, 0},
      {R"({"rope_scaling":{"type":"linear","factor":2}})", Scaling::kLinear, 1000, 2, 0},
      {R"({"rope_scaling":{"rope_type":"linear","factor":2.5}})", Scaling::kLinear, 1000, 2.5, 0},
      {R"({"rope_scaling":{"rope_type":"linear","type":"yarn","factor":2.5}})", Scaling::kLinear, 1000, 2.5, 0},
      {R"({"rope_parameters":{"rope_type":"linear","factor":4,"rope_theta":7}})", Scaling::kLinear, 7, 4, 0},
      {R"({"rope_scaling":{"rope_type":"yarn","factor":4}})", Scaling::kYarn, 1000, 4, 64},
      {R"({"rope_scaling":{"rope_type":"yarn","factor":4,"original_max_position_embeddings":16}})", Scaling::kYarn,
       1000, 4, 16},
      {R"({"original_max_position_embeddings":32,"rope_scaling":{"rope_type":"yarn","factor":4}})", Scaling::kYarn,
       1000, 4, 32},
      {R"({"rope_parameters":{"rope_type":"llama3","factor":8,"low_freq_factor":1,"high_freq_factor":4,
          "original_max_position_embeddings":16}})",
       Scaling::kLlama3, 1000, 8, 16},
  };
  for (const RopeCase& item : cases) {
    SCOPED_TRACE(item.patch);
    const RopeConfig rope = read(patched(tiny_config("llama"), item.patch)).stack.layers[0].rope;
    EXPECT_EQ(rope.scaling, item.scaling);
    EXPECT_EQ(rope.theta, item.theta);
    EXPECT_EQ(rope.factor, item.factor);
    EXPECT_EQ(rope.original_max_positions, item.original);
  }
  const RopeConfig yarn = read(patched(tiny_config(), R"({"rope_scaling":{"rope_type":"yarn","factor":4,"beta_fast":20,
    "beta_slow":2,"truncate":false,"attention_factor":1.5}})"))
                              .stack.layers[0]
                              .rope;
  EXPECT_EQ(yarn.beta_fast, 20);
  EXPECT_EQ(yarn.beta_slow, 2);
  EXPECT_FALSE(yarn.truncate);
  EXPECT_EQ(yarn.attention_factor, 1.5);
}

struct Refusal {
  const char* patch;
  std::vector<std::string> parts;
};

void expect_refusals(const std::string& family, const std::vector<Refusal>& refusals) {
  for (const Refusal& item : refusals) {
    SCOPED_TRACE(std::string(item.patch).substr(0, 200));
    std::vector<std::string> parts = item.parts;
    parts.push_back("config.json");
    expect_error([&] { read(patched(tiny_config(family), item.patch)); }, parts);
  }
}

TEST(ModelConfig, RefusesImpossibleGeometry) {
  expect_refusals(
      "llama",
      {{R"({"hidden_size":"<absent>"})", {"hidden_size", "found nothing"}},
       {R"({"intermediate_size":"<absent>"})", {"intermediate_size", "found nothing"}},
       {R"({"num_hidden_layers":"<absent>"})", {"num_hidden_layers", "found nothing"}},
       {R"({"num_attention_heads":"<absent>"})", {"num_attention_heads", "found nothing"}},
       {R"({"vocab_size":"<absent>"})", {"vocab_size", "found nothing"}},
       {R"({"max_position_embeddings":"<absent>"})", {"max_position_embeddings", "found nothing"}},
       {R"({"hidden_size":null})", {"hidden_size", "found nothing"}},
       {R"({"hidden_size":"8"})", {"hidden_size", "found \"8\""}},
       {R"({"hidden_size":8.0})", {"hidden_size", "an integer", "found 8.0"}},
       {R"({"hidden_size":[8]})", {"hidden_size", "found [8]"}},
       {R"({"hidden_size":true})", {"hidden_size", "found true"}},
       {R"({"hidden_size":0})", {"hidden_size", "found 0"}},
       {R"({"hidden_size":-8})", {"hidden_size", "found -8"}},
       {R"({"hidden_size":4294967304})", {"hidden_size", "1048576", "4294967304"}},
       {R"({"hidden_size":18446744073709551608})", {"hidden_size", "18446744073709551608"}},
       {R"({"hidden_size":1e30})", {"hidden_size", "an integer"}},
       {R"({"intermediate_size":99999999999999999999999})", {"intermediate_size"}},
       {R"({"num_hidden_layers":0})", {"num_hidden_layers"}},
       {R"({"num_hidden_layers":1001})", {"num_hidden_layers", "1000"}},
       {R"({"num_attention_heads":0})", {"num_attention_heads"}},
       {R"({"num_attention_heads":2147483647})", {"num_attention_heads", "4096"}},
       {R"({"num_key_value_heads":0})", {"num_key_value_heads"}},
       {R"({"num_attention_heads":4,"num_key_value_heads":3})", {"num_key_value_heads", "a divisor", "4", "found 3"}},
       {R"({"num_key_value_heads":4})", {"num_key_value_heads", "a divisor"}},
       {R"({"head_dim":5})", {"head_dim", "even", "found 5"}},
       {R"({"head_dim":0})", {"head_dim", "found 0"}},
       {R"({"head_dim":1024})", {"head_dim", "512", "found 1024"}},
       {R"({"head_dim":"<absent>","hidden_size":9})", {"hidden_size", "a multiple of num_attention_heads"}},
       {R"({"head_dim":"<absent>","num_attention_heads":8})", {"head_dim", "even"}},
       {R"({"head_dim":"<absent>","hidden_size":1048576,"num_attention_heads":1})", {"head_dim", "512"}},
       {R"({"vocab_size":0})", {"vocab_size"}},
       {R"({"vocab_size":16777217})", {"vocab_size", "16777216"}},
       {R"({"max_position_embeddings":0})", {"max_position_embeddings"}},
       {R"({"max_position_embeddings":1e9})", {"max_position_embeddings", "an integer"}},
       {R"({"eos_token_id":20})", {"eos_token_id", "0 to 19"}},
       {R"({"eos_token_id":-1})", {"eos_token_id"}},
       {R"({"eos_token_id":[3,"x"]})", {"eos_token_id"}},
       {R"({"eos_token_id":"</s>"})", {"eos_token_id"}},
       {R"({"eos_token_id":[18446744073709551615]})", {"eos_token_id"}}});
}

TEST(ModelConfig, RefusesWhatItWouldComputeDifferently) {
  expect_refusals(
      "qwen3",
      {{R"({"model_type":"<absent>"})", {"model_type", "found nothing"}},
       {R"({"model_type":"mamba"})", {"model_type", "llama", "qwen2", "qwen3", "found \"mamba\""}},
       {R"({"model_type":"QWEN3"})", {"model_type"}},
       {R"({"model_type":3})", {"model_type", "a string"}},
       {R"({"hidden_act":"gelu"})", {"hidden_act", "silu", "gelu"}},
       {R"({"hidden_act":null,"rms_norm_eps":"1e-6"})", {"rms_norm_eps", "a number"}},
       {R"({"rms_norm_eps":-1e-6})", {"rms_norm_eps", "from 0 to 1"}},
       {R"({"rms_norm_eps":1e300})", {"rms_norm_eps", "from 0 to 1"}},
       {R"({"attention_bias":"yes"})", {"attention_bias", "true or false"}},
       {R"({"tie_word_embeddings":1})", {"tie_word_embeddings", "true or false"}},
       {R"({"layer_types":"full_attention"})", {"layer_types", "a list of strings"}},
       {R"({"layer_types":["full_attention"]})", {"layer_types", "2 entries"}},
       {R"({"layer_types":["full_attention","full_attention","full_attention"]})", {"layer_types", "2 entries"}},
       {R"({"layer_types":["full_attention",2]})", {"layer_types", "a list of strings"}},
       {R"({"layer_types":["full_attention","linear_attention"]})", {"layer_types", "linear_attention"}},
       {R"({"layer_types":["sliding_attention","full_attention"]})", {"sliding_window", "found nothing"}},
       {R"({"layer_types":["sliding_attention","full_attention"],"sliding_window":0})", {"sliding_window"}},
       {R"({"layer_types":["sliding_attention","full_attention"],"sliding_window":9})", {"use_sliding_window", "true"}},
       {R"({"per_layer_config":{"0":{"intermediate_size":8}}})", {"per_layer_config", "not supported"}},
       {R"({"use_sliding_window":true,"sliding_window":-4})", {"sliding_window", "found -4"}},
       {R"({"use_sliding_window":"true"})", {"use_sliding_window", "true or false"}},
       {R"({"use_sliding_window":true,"sliding_window":4,"max_window_layers":-1})", {"max_window_layers"}}});
}

// The words of the 4B model as published; the rest is the class's.
Json gemma3_config() {
  return Json::parse(R"({"model_type": "gemma3", "eos_token_id": [1, 106], "text_config": {"hidden_size": 2560,
    "intermediate_size": 10240, "num_hidden_layers": 34, "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
    "sliding_window": 1024}})");
}

TEST(ModelConfig, Gemma3LeavesMuchToTheClass) {
  const ModelConfig config = read(gemma3_config());
  EXPECT_EQ(config.vocab, 262208);
  EXPECT_EQ(config.max_positions, 131072);
  EXPECT_TRUE(config.tied_head);
  EXPECT_EQ(config.stop_ids, (std::vector<int32_t>{1, 106}));
  EXPECT_FLOAT_EQ(config.embedding_scale, std::sqrt(2560.0F));
  const StackConfig& stack = config.stack;
  EXPECT_TRUE(stack.output_norms && stack.qk_norm && stack.norms_from_one && !stack.qkv_bias);
  EXPECT_EQ(stack.activation, Activation::kGelu);
  for (int32_t i = 0; i < 34; ++i) {
    const LayerAttention& layer = stack.layers[i];
    EXPECT_TRUE(layer.shape.n_heads == 8 && layer.shape.n_kv_heads == 4 && layer.shape.head_dim == 256);
    EXPECT_FLOAT_EQ(layer.shape.scale, 1.0F / 16);
    const bool full = i % 6 == 5;
    EXPECT_EQ(layer.window, full ? 0 : 1024);
    EXPECT_EQ(layer.rope.theta, full ? 1e6 : 1e4);
    EXPECT_EQ(layer.rope.scaling, full ? RopeConfig::Scaling::kLinear : RopeConfig::Scaling::kNone);
  }
}

TEST(ModelConfig, Gemma3IsRefusedWhereItWouldDiffer) {
  const std::pair<const char*, std::vector<std::string>> broken[] = {
      {R"({"attn_logit_softcapping": 50.0})", {"attn_logit_softcapping", "null"}},
      {R"({"final_logit_softcapping": 30.0})", {"final_logit_softcapping", "null"}},
      {R"({"use_bidirectional_attention": true})", {"use_bidirectional_attention", "false"}},
      {R"({"hidden_activation": "silu"})", {"hidden_activation", "gelu_pytorch_tanh"}},
      {R"({"query_pre_attn_scalar": 0})", {"query_pre_attn_scalar"}},
      {R"({"rope_scaling": 8})", {"rope_scaling"}},
      {R"({"rope_parameters": {"rope_type": "default", "rope_theta": 5.0}})", {"rope_type", "full_attention"}},
      {R"({"rope_parameters": {"sliding_attention": {"rope_type": "yarn"}}})", {"sliding_attention", "default"}},
      {R"({"layer_types": ["full_attention"]})", {"layer_types", "34 entries"}},
      {R"({"sliding_window_pattern": 0})", {"sliding_window_pattern"}}};
  for (const auto& [change, parts] : broken) {
    Json config = gemma3_config();
    config["text_config"].update(Json::parse(change));
    expect_error([&] { read(config); }, parts);
  }
}

TEST(RopeConfig, RefusesWhatItCannotCompute) {
  expect_refusals(
      "qwen3",
      {{R"({"rope_theta":"10000"})", {"rope_theta", "a number"}},
       {R"({"rope_theta":1})", {"rope_theta", "found 1"}},
       {R"({"rope_theta":0})", {"rope_theta"}},
       {R"({"rope_theta":-5})", {"rope_theta", "found -5"}},
       {R"({"rope_theta":1e300})", {"rope_theta"}},
       {R"({"rope_scaling":"linear"})", {"rope_scaling", "an object"}},
       {R"({"rope_scaling":{"type":"dynamic","factor":2}})", {"type", "dynamic"}},
       {R"({"rope_scaling":{"rope_type":"longrope","factor":2}})", {"rope_type", "longrope"}},
       {R"({"rope_scaling":{"rope_type":3}})", {"rope_type", "a string"}},
       {R"({"rope_scaling":{"type":"linear"}})", {"factor", "found nothing"}},
       {R"({"rope_scaling":{"type":"linear","factor":0.5}})", {"factor", "found 0.5"}},
       {R"({"rope_scaling":{"type":"linear","factor":"2"}})", {"factor", "a number"}},
       {R"({"rope_scaling":{"type":"linear","factor":1e300}})", {"factor"}},
       {R"({"rope_scaling":{"type":"yarn","factor":2,"beta_fast":0}})", {"beta_fast"}},
       {R"({"rope_scaling":{"type":"yarn","factor":2,"beta_slow":-1}})", {"beta_slow"}},
       {R"({"rope_scaling":{"type":"yarn","factor":2,"attention_factor":-1}})", {"attention_factor"}},
       {R"({"rope_scaling":{"type":"yarn","factor":2,"mscale":-1}})", {"mscale", "from 0"}},
       {R"({"rope_scaling":{"type":"yarn","factor":2,"mscale_all_dim":"1"}})", {"mscale_all_dim", "a number"}},
       {R"({"rope_scaling":{"type":"yarn","factor":2,"partial_rotary_factor":0.5}})", {"partial_rotary_factor"}},
       {R"({"rope_scaling":{"type":"yarn","factor":2,"original_max_position_embeddings":-5}})",
        {"original_max_position_embeddings"}},
       {R"({"rope_scaling":{"type":"yarn","factor":2,"original_max_position_embeddings":"x"}})",
        {"original_max_position_embeddings"}},
       {R"({"rope_scaling":{"type":"llama3","factor":2,"high_freq_factor":4}})", {"low_freq_factor", "found nothing"}},
       {R"({"rope_scaling":{"type":"llama3","factor":2,"low_freq_factor":0,"high_freq_factor":4}})",
        {"low_freq_factor"}},
       {R"({"rope_scaling":{"type":"llama3","factor":2,"low_freq_factor":4,"high_freq_factor":4}})",
        {"high_freq_factor", "more than low_freq_factor"}},
       {R"({"partial_rotary_factor":0})", {"partial_rotary_factor"}},
       {R"({"partial_rotary_factor":1.5})", {"partial_rotary_factor", "found 1.5"}},
       {R"({"partial_rotary_factor":0.25})", {"partial_rotary_factor", "even number"}},
       {R"({"partial_rotary_factor":0.75})", {"partial_rotary_factor", "even number"}},
       {R"({"rope_parameters":[]})", {"rope_parameters", "an object"}},
       {R"({"rope_parameters":{"full_attention":{"rope_type":"default"}}})",
        {"full_attention", "one rope for all layers"}}});
}

TEST(ModelConfig, RefusesFoldersWithoutIt) {
  const TempFolder folder;
  expect_error([&] { read_model_config(folder.path()); }, {folder.path().string(), "no config.json"});
  expect_error([&] { read_model_config(folder.path() / std::string(300, 'x')); }, {"no config.json"});
  for (const char* text : {"", "[]", "null", "{", "{\"a\":1,\"a\":2}", "\xff"}) {
    folder.write("config.json", text);
    expect_error([&] { read_model_config(folder.path()); }, {"config.json"});
  }
}

}  // namespace
}  // namespace ashlar::testing
