// SPDX-License-Identifier: Apache-2.0
#include "model/gguf/gguf_config.h"

#include "device/device.h"
#include "gguf_writer.h"
#include "model/model.h"
#include "unit/io/outside_files.h"

namespace ashlar::testing {
namespace {

using W = GgufWriter;

// What a file has at least.
GgufWriter tiny(const std::string& architecture = "llama") {
  GgufWriter file;
  file.text("general.architecture", architecture)
      .number(architecture + ".context_length", 64U)
      .number(architecture + ".embedding_length", 8U)
      .number(architecture + ".feed_forward_length", 12U)
      .number(architecture + ".block_count", 1U)
      .number(architecture + ".attention.head_count", 2U)
      .number(architecture + ".attention.layer_norm_rms_epsilon", 1e-5F);
  file.tensor("token_embd.weight", {8, 20}, 0, std::string(8 * 20 * 4, '\0'));
  return file;
}

class GgufConfig : public ::testing::Test {
 protected:
  ModelConfig read(const GgufWriter& file) const { return read_model_config(folder_.write("m.gguf", file.bytes())); }
  void refuse(const GgufWriter& file, std::vector<std::string> parts) const {
    parts.emplace_back("m.gguf");
    expect_error([&] { read(file); }, parts);
  }
  TempFolder folder_;
};

TEST_F(GgufConfig, TakesTheFormatsDefaults) {
  const ModelConfig config = read(tiny());
  EXPECT_EQ(config.family, "llama");
  EXPECT_EQ(config.vocab, 20);
  EXPECT_EQ(config.max_positions, 64);
  EXPECT_TRUE(config.tied_head);
  EXPECT_TRUE(config.stop_ids.empty());
  EXPECT_EQ(config.folder, folder_ / "m.gguf");
  const LayerAttention& layer = config.stack.layers[0];
  EXPECT_EQ(layer.shape.n_kv_heads, 2);  // as many as heads, in every architecture
  EXPECT_EQ(layer.shape.head_dim, 4);
  EXPECT_EQ(layer.rope.theta, 10000.0);
  EXPECT_TRUE(config.stack.names.interleaved_heads);
  const ModelConfig qwen = read(tiny("qwen3"));
  EXPECT_EQ(qwen.stack.layers[0].shape.n_kv_heads, 2);
  EXPECT_EQ(qwen.stack.layers[0].shape.head_dim, 4);
  EXPECT_FALSE(qwen.stack.names.interleaved_heads);
}

TEST_F(GgufConfig, KnowsEveryEndOfAnAnswer) {
  GgufWriter file = tiny();
  file.number("tokenizer.ggml.eos_token_id", 7U)
      .number("tokenizer.ggml.eot_token_id", 9U)
      .number("tokenizer.ggml.eom_token_id", 7U);
  EXPECT_EQ(read(file).stop_ids, (std::vector<int32_t>{7, 9}));
  GgufWriter beyond = tiny();
  beyond.number("tokenizer.ggml.eos_token_id", 20U);
  refuse(beyond, {"eos_token_id", "from 0 to 19"});
}

TEST_F(GgufConfig, ReadsRopeScaling) {
  GgufWriter old = tiny();
  old.number("llama.rope.scale_linear", 4.0F);
  EXPECT_EQ(read(old).stack.layers[0].rope.scaling, RopeConfig::Scaling::kLinear);
  EXPECT_EQ(read(old).max_positions, 256);
  GgufWriter yarn = tiny();
  yarn.text("llama.rope.scaling.type", "yarn")
      .number("llama.rope.scaling.factor", 4.0F)
      .number("llama.rope.scaling.original_context_length", 32U)
      .number("llama.rope.scaling.attn_factor", 1.0F);
  const RopeConfig rope = read(yarn).stack.layers[0].rope;
  EXPECT_EQ(rope.scaling, RopeConfig::Scaling::kYarn);
  EXPECT_EQ(rope.factor, 4.0);
  EXPECT_EQ(rope.original_max_positions, 32.0);
  GgufWriter factors = tiny();
  factors.tensor("rope_freqs.weight", {2}, 0, W::raw(1.0F) + W::raw(8.0F));
  EXPECT_EQ(read(factors).stack.layers[0].rope.scaling, RopeConfig::Scaling::kFactors);
  EXPECT_EQ(read(factors).stack.layers[0].rope.factors, (std::vector<float>{1, 8}));
  GgufWriter both = yarn;
  both.tensor("rope_freqs.weight", {2}, 0, W::raw(1.0F) + W::raw(8.0F));
  refuse(both, {"llama.rope.scaling.type", "none", "rope_freqs.weight", "yarn"});
}

TEST_F(GgufConfig, ReadsMixtures) {
  GgufWriter file = tiny("qwen3moe");
  file.number("qwen3moe.expert_count", 6U)
      .number("qwen3moe.expert_used_count", 2U)
      .number("qwen3moe.expert_feed_forward_length", 4U);
  const ModelConfig config = read(file);
  EXPECT_EQ(config.family, "qwen3_moe");
  ASSERT_TRUE(config.stack.moe);
  EXPECT_EQ(config.stack.moe->n_experts, 6);
  EXPECT_EQ(config.stack.moe->routing.top_k, 2);
  EXPECT_TRUE(config.stack.moe->routing.normalise);
}

TEST_F(GgufConfig, RefusesWhatItWouldGetWrong) {
  refuse(tiny("mamba"), {"general.architecture", "one of llama, qwen2, qwen3, qwen3moe", "mamba"});
  refuse(GgufWriter(), {"general.architecture", "found nothing"});
  for (const auto& [key, value] : std::vector<std::pair<const char*, float>>{{"attention.sliding_window", 16},
                                                                             {"attention.scale", 0.3F},
                                                                             {"logit_scale", 2},
                                                                             {"rope.scaling.attn_factor", 2},
                                                                             {"rope.dimension_count", 2},
                                                                             {"attention.value_length", 6}}) {
    GgufWriter file = tiny();
    file.number(std::string("llama.") + key, value);
    refuse(file, {std::string("llama.") + key});
  }
  GgufWriter longrope = tiny();
  longrope.text("llama.rope.scaling.type", "longrope");
  refuse(longrope, {"llama.rope.scaling.type", "none, linear or yarn", "longrope"});
  GgufWriter layers = tiny();
  layers.integers("llama.attention.head_count_kv", {1, 2});
  refuse(layers, {"llama.attention.head_count_kv", "one value for all layers", "an array"});
  GgufWriter experts = tiny();
  experts.number("llama.expert_count", 8U);
  refuse(experts, {"llama.expert_count", "nothing"});
  GgufWriter bare = tiny();
  bare.tensors.clear();
  refuse(bare, {"has no embedding", "token_embd.weight"});
  for (const char* bad : {"short", "zero"}) {
    GgufWriter file = tiny();
    file.tensor("rope_freqs.weight", {std::string(bad) == "short" ? 1U : 2U}, 0, W::raw(1.0F) + W::raw(0.0F));
    refuse(file, {"rope_freqs.weight", "F32 [2] of positive numbers"});
  }
}

TEST_F(GgufConfig, RefusesEachMissingKey) {
  const GgufWriter whole = tiny();
  for (size_t i = 0; i < whole.keys.size(); ++i) {
    GgufWriter file = whole;
    file.keys.erase(file.keys.begin() + static_cast<std::ptrdiff_t>(i));
    refuse(file, {"found nothing"});
  }
}

// The binder's words, for names and types of this format.
TEST_F(GgufConfig, BinderNamesWhatIsMissingOrUnsupported) {
  const auto ops = make_device("ref", {});
  const auto load = [&](const GgufWriter& file) {
    return [&, path = folder_.write("m.gguf", file.bytes())] { Model::load(*ops, path); };
  };
  expect_error(load(tiny()), {"m.gguf", "output_norm.weight", "missing"});
  GgufWriter file = tiny();
  file.tensor("output_norm.weight", {256}, 18, std::string(98, '\0'));
  expect_error(load(file), {"output_norm.weight", "expected shape [8]", "found [256]"});
  GgufWriter odd = tiny();
  odd.tensors.clear();
  odd.data.clear();
  odd.tensor("token_embd.weight", {8, 20}, 24, std::string(160, '\0'));
  expect_error(load(odd), {"token_embd.weight", "expected dtype F32, F16, BF16, Q8_0", "MXFP4, found I8"});
}

}  // namespace
}  // namespace ashlar::testing
