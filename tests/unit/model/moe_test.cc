// SPDX-License-Identifier: Apache-2.0
// Mixtures of experts and models of blocks: what their configs mean, and what their checkpoints must hold.

#include "unit/model/tiny_logits.h"

namespace ashlar::testing {
namespace {

constexpr const char* kSizes = R"({"num_experts":4,"num_experts_per_tok":2,"moe_intermediate_size":6})";
constexpr const char* kLlada2 = R"({"num_experts":8,"num_experts_per_tok":2,"moe_intermediate_size":6,
  "num_shared_experts":2,"n_group":4,"topk_group":2,"score_function":"sigmoid","moe_router_enable_expert_bias":true,
  "routed_scaling_factor":2.5,"norm_topk_prob":true,"first_k_dense_replace":1,"partial_rotary_factor":0.5,
  "rotary_dim":2,"mask_token_id":7})";

Json qwen3_moe() { return patched(tiny_config("qwen3_moe"), kSizes); }
Json llada2(const std::string& family = "llada2_moe") { return patched(tiny_config(family), kLlada2); }

ModelConfig read_experts(const Json& config) {
  const TempFolder folder;
  folder.write("config.json", config.dump());
  return read_model_config(folder.path());
}

TEST(MoeConfig, Qwen3) {
  const MoeConfig moe = *read_experts(qwen3_moe()).stack.moe;
  EXPECT_EQ(moe.n_experts, 4);
  EXPECT_EQ(moe.intermediate, 6);
  EXPECT_EQ(moe.shared_intermediate, 0);
  EXPECT_FALSE(moe.expert_bias);
  EXPECT_EQ(moe.routing.top_k, 2);
  EXPECT_EQ(moe.routing.n_groups, 1);
  EXPECT_EQ(moe.routing.score, Routing::Score::kSoftmax);
  EXPECT_FALSE(moe.routing.normalise);  // the class default
  EXPECT_EQ(moe.layers, std::vector<bool>({true, true}));
  const auto experts = [](const std::string& patch) {
    return read_experts(patched(qwen3_moe(), patch)).stack.moe->n_experts;
  };
  EXPECT_EQ(experts(R"({"num_experts":"<absent>","num_local_experts":6})"), 6);  // as transformers 5 writes it
  EXPECT_EQ(experts(R"({"num_experts":3,"num_local_experts":6})"), 6);
  EXPECT_EQ(experts(R"({"num_experts":3,"num_local_experts":null})"), 3);
  const auto layers = [](const std::string& patch) {
    return read_experts(patched(qwen3_moe(), patch)).stack.moe->layers;
  };
  EXPECT_EQ(layers(R"({"decoder_sparse_step":2})"), std::vector<bool>({false, true}));
  EXPECT_EQ(layers(R"({"decoder_sparse_step":3})"), std::vector<bool>({false, false}));
  EXPECT_EQ(layers(R"({"mlp_only_layers":[1]})"), std::vector<bool>({true, false}));
  EXPECT_TRUE(read_experts(patched(qwen3_moe(), R"({"norm_topk_prob":true})")).stack.moe->routing.normalise);
  EXPECT_FALSE(read_experts(qwen3_moe()).diffusion);
  const ModelConfig sdar = read_experts(patched(qwen3_moe(), R"({"model_type":"sdar_moe","mask_token_id":7})"));
  EXPECT_TRUE(sdar.stack.moe && sdar.diffusion);
  EXPECT_EQ(sdar.diffusion->block_size, 4);
}

TEST(MoeConfig, Llada2) {
  for (const char* family : {"llada2_moe", "llada2_moe_veomni"}) {
    const ModelConfig config = read_experts(llada2(family));
    const MoeConfig moe = *config.stack.moe;
    EXPECT_EQ(moe.layers, std::vector<bool>({false, true}));
    EXPECT_EQ(moe.shared_intermediate, 12);
    EXPECT_TRUE(moe.expert_bias);
    EXPECT_EQ(moe.routing.score, Routing::Score::kSigmoid);
    EXPECT_EQ(moe.routing.n_groups, 4);
    EXPECT_EQ(moe.routing.top_groups, 2);
    EXPECT_TRUE(moe.routing.normalise);
    EXPECT_EQ(moe.routing.scale, 2.5F);
    EXPECT_TRUE(config.stack.qk_norm && !config.stack.qkv_bias);
    EXPECT_EQ(config.stack.layers[0].rope.partial_rotary_factor, 0.5);
    EXPECT_EQ(config.diffusion->block_size, 32);
    EXPECT_EQ(config.diffusion->mask_id, 7);
    EXPECT_EQ(config.diffusion->token_shift, 0);
  }
  const ModelConfig large = read_experts(patched(llada2(), R"({"vocab_size":157184,"mask_token_id":"<absent>"})"));
  EXPECT_EQ(large.diffusion->mask_id, 156895);
  const Routing single = read_experts(patched(llada2(), R"({"num_experts_per_tok":1})")).stack.moe->routing;
  EXPECT_FALSE(single.normalise);
}

TEST(BlockConfig, FastDllmDreamAndLlada) {
  const ModelConfig fast = read_experts(patched(tiny_config("Fast_dLLM_Qwen"), R"({"mask_token_id":7,"bd_size":16})"));
  EXPECT_EQ(fast.diffusion->block_size, 16);
  EXPECT_EQ(fast.diffusion->token_shift, 1);
  EXPECT_EQ(fast.diffusion->sub_block, 8);
  EXPECT_TRUE(fast.stack.qkv_bias);
  const ModelConfig dream = read_experts(patched(tiny_config("Dream"), R"({"mask_token_id":7,"block_size":16})"));
  EXPECT_EQ(dream.diffusion->block_size, 0);  // whatever a file says, it sees the whole sequence
  EXPECT_EQ(dream.diffusion->token_shift, 1);
  const ModelConfig llada = read_experts(tiny_llada_config());
  EXPECT_EQ(llada.stack.hidden, 8);
  EXPECT_EQ(llada.stack.intermediate, 12);
  EXPECT_EQ(llada.stack.layers[0].shape.n_kv_heads, 2);
  EXPECT_EQ(llada.max_positions, 64);
  EXPECT_EQ(llada.diffusion->block_size, 0);
  EXPECT_EQ(llada.diffusion->token_shift, 0);
}

TEST(MoeConfig, RefusesWhatItWouldComputeDifferently) {
  struct Refusal {
    Json config;
    const char* patch;
    std::vector<std::string> parts;
  };
  const std::vector<Refusal> refusals = {
      {qwen3_moe(), R"({"num_experts":"<absent>"})", {"num_experts", "found nothing"}},
      {qwen3_moe(), R"({"num_experts_per_tok":5})", {"num_experts_per_tok", "at most num_experts"}},
      {qwen3_moe(), R"({"num_experts_per_tok":0})", {"num_experts_per_tok", "found 0"}},
      {qwen3_moe(), R"({"moe_intermediate_size":0})", {"moe_intermediate_size"}},
      {qwen3_moe(), R"({"decoder_sparse_step":0})", {"decoder_sparse_step"}},
      {qwen3_moe(), R"({"mlp_only_layers":[2]})", {"mlp_only_layers", "0 to 1"}},
      {qwen3_moe(), R"({"norm_topk_prob":1})", {"norm_topk_prob", "true or false"}},
      {llada2(), R"({"n_group":3})", {"n_group", "a divisor"}},
      {llada2(), R"({"n_group":8})", {"n_group", "two experts"}},
      {llada2(), R"({"topk_group":5})", {"topk_group", "1 to 4"}},
      {llada2(), R"({"num_experts_per_tok":5})", {"num_experts_per_tok", "topk_group"}},
      {llada2(), R"({"score_function":"tanh"})", {"score_function", "sigmoid"}},
      {llada2(), R"({"norm_topk_prob":false})", {"norm_topk_prob", "true"}},
      {llada2(), R"({"routed_scaling_factor":"<absent>"})", {"routed_scaling_factor", "found nothing"}},
      {llada2(), R"({"first_k_dense_replace":"<absent>"})", {"first_k_dense_replace", "found nothing"}},
      {llada2(), R"({"partial_rotary_factor":"<absent>"})", {"partial_rotary_factor", "found nothing"}},
      {llada2(), R"({"rope_theta":"<absent>"})", {"rope_theta", "found nothing"}},
      {llada2(), R"({"rotary_dim":4})", {"rotary_dim", "expected 2"}},
      {llada2(), R"({"using_split_qkv_in_self_attention":true})", {"using_split_qkv_in_self_attention", "false"}},
      {llada2(), R"({"norm_head":true})", {"norm_head", "false"}},
      {llada2(), R"({"mask_token_id":"<absent>"})", {"mask_token_id", "156895"}},
      {llada2(), R"({"block_size":0})", {"block_size"}},
      {tiny_config("sdar"), R"({})", {"mask_token_id", "151669"}},
      {tiny_config("Dream"), R"({"mask_token_id":7,"use_mrope":true})", {"use_mrope", "false"}},
      {tiny_llada_config(), R"({"d_model":"<absent>"})", {"d_model", "found nothing"}},
      {tiny_llada_config(), R"({"n_kv_heads":3})", {"n_kv_heads", "a divisor of n_heads (2)"}},
      {tiny_llada_config(), R"({"activation_type":"gelu"})", {"activation_type", "silu"}},
      {tiny_llada_config(), R"({"block_type":"sequential"})", {"block_type", "llama"}},
      {tiny_llada_config(), R"({"embedding_size":32})", {"embedding_size", "vocab_size (20)"}},
      {tiny_llada_config(), R"({"rope":false})", {"rope", "true"}},
      {tiny_llada_config(), R"({"alibi":true})", {"alibi", "false"}},
      {tiny_llada_config(), R"({"clip_qkv":8.0})", {"clip_qkv"}}};
  for (const Refusal& item : refusals) {
    SCOPED_TRACE(item.patch);
    std::vector<std::string> parts = item.parts;
    parts.push_back("config.json");
    expect_error([&] { read_experts(patched(item.config, item.patch)); }, parts);
  }
}

void add_mlp(Tensors& tensors, const std::string& base, int64_t width) {
  add_random(tensors, base + "gate_proj.weight", {width, 8});
  add_random(tensors, base + "up_proj.weight", {width, 8});
  add_random(tensors, base + "down_proj.weight", {8, width});
}

/// The tensors of llada2(), experts in one tensor each or merged.
Tensors llada2_tensors(bool merged) {
  Tensors tensors;
  add_random(tensors, "model.word_embeddings.weight", {20, 8});
  add_random(tensors, "model.norm.weight", {8});
  add_random(tensors, "lm_head.weight", {20, 8});
  for (int layer = 0; layer < 2; ++layer) {
    const std::string base = "model.layers." + std::to_string(layer) + ".";
    add_random(tensors, base + "input_layernorm.weight", {8});
    add_random(tensors, base + "post_attention_layernorm.weight", {8});
    add_random(tensors, base + "attention.query_key_value.weight", {16, 8});
    add_random(tensors, base + "attention.query_layernorm.weight", {4});
    add_random(tensors, base + "attention.key_layernorm.weight", {4});
    add_random(tensors, base + "attention.dense.weight", {8, 8});
  }
  add_mlp(tensors, "model.layers.0.mlp.", 12);
  const std::string mlp = "model.layers.1.mlp.";
  add_random(tensors, mlp + "gate.weight", {8, 8});
  add_random(tensors, mlp + "gate.expert_bias", {8});
  add_mlp(tensors, mlp + "shared_experts.", 12);
  if (merged) {
    add_random(tensors, mlp + "experts.gate_proj", {8, 6, 8});
    add_random(tensors, mlp + "experts.up_proj", {8, 6, 8});
    add_random(tensors, mlp + "experts.down_proj", {8, 8, 6});
    return tensors;
  }
  for (int e = 0; e < 8; ++e) add_mlp(tensors, mlp + "experts." + std::to_string(e) + ".", 6);
  return tensors;
}

class MoeBinding : public ::testing::TestWithParam<bool> {
 protected:
  void refuse(const Tensors& tensors, const std::vector<std::string>& parts) {
    const ModelFolder folder(llada2(), tensors);
    expect_error([&] { Model::load(*ops_, folder.path()); }, parts);
  }
  std::unique_ptr<Ops> ops_ = make_device("ref", {});
};
INSTANTIATE_TEST_SUITE_P(Merged, MoeBinding, ::testing::Bool());

TEST_P(MoeBinding, EveryTensorIsNeededInItsShapeAndType) {
  const Tensors whole = llada2_tensors(GetParam());
  EXPECT_NO_THROW(Model::load(*ops_, ModelFolder(llada2(), whole).path()));
  for (const auto& [name, tensor] : whole) {
    SCOPED_TRACE(name);
    Tensors tensors = whole;
    tensors.erase(name);
    if (name != "model.layers.1.mlp.experts.gate_proj") {  // without it the experts are looked for one by one
      refuse(tensors, {"tensor " + name, "missing", "expected " + describe_shape(tensor.shape)});
    }
    std::vector<int64_t> shape = tensor.shape;
    ++shape.back();
    tensors[name] = zeros(name, "F32", 4, shape);
    refuse(tensors, {"tensor " + name, "expected shape " + describe_shape(tensor.shape), describe_shape(shape)});
    tensors[name] = zeros(name, "I64", 8, tensor.shape);
    refuse(tensors, {"tensor " + name, "expected dtype", "found I64"});
  }
}

TEST_P(MoeBinding, UnknownTensorsAreNamed) {
  for (const std::string name : {"model.layers.0.mlp.gate.weight", "model.layers.1.mlp.experts.8.gate_proj.weight",
                                 "model.layers.1.mlp.gate_proj.weight", "model.layers.1.mlp.gate.bias"}) {
    Tensors tensors = llada2_tensors(GetParam());
    add_random(tensors, name, {3});
    refuse(tensors, {"tensor " + name, "found F32 [3]", "expected no such tensor"});
  }
}

TEST_P(MoeBinding, ExpertsMayDifferInType) {
  const std::string experts = "model.layers.1.mlp.experts.";
  const std::vector<std::string> merged = {experts + "up_proj"};
  const std::vector<std::string> apart = {experts + "5.up_proj.weight", experts + "2.down_proj.weight"};
  expect_types_mix(llada2(), llada2_tensors(GetParam()), GetParam() ? merged : apart);
}

}  // namespace
}  // namespace ashlar::testing
