// SPDX-License-Identifier: Apache-2.0
// GLM-4 of 2025 (dense): norms before and after mixer and MLP; the first half of each head is rotated, in pairs of
// neighbours; gates and ups in one tensor. GLM-4.5, 4.6 and 4.7 (glm4_moe): Llama's layers, of whose heads the first
// half is rotated, and after the first ones DeepSeek-V3's experts: groups, sigmoid scores, a bias for the choice only,
// shared experts. Their checkpoints bring a layer that drafts (MTP) as if it were one more.

#include "model/families/family.h"

namespace ashlar {
namespace {

// What published files of the dense model leave to the class of transformers.
constexpr int32_t kStops[] = {151329, 151336, 151338};

Json complete_glm4(const JsonFields& fields, const Json& settings) {
  Json own = settings;
  if (!fields.has("rms_norm_eps")) own["rms_norm_eps"] = 1.5625e-7;
  if (!fields.has("eos_token_id") && fields.integer("vocab_size", 1, 1 << 24) > kStops[2]) own["eos_token_id"] = kStops;
  return own;
}

void read_glm4(const JsonFields& fields, ModelConfig& config) {
  config.stack.qkv_bias = fields.boolean("attention_bias", true);
  config.stack.output_norms = true;
}

// The same of the mixtures.
constexpr const char* kGlm4MoeDefaults = R"({"vocab_size": 151552, "hidden_size": 4096, "intermediate_size": 10944,
  "num_hidden_layers": 46, "num_attention_heads": 96, "max_position_embeddings": 131072, "rms_norm_eps": 1e-5,
  "moe_intermediate_size": 1408, "num_experts_per_tok": 8, "n_shared_experts": 1, "n_group": 1, "topk_group": 1})";

Json complete_glm4_moe(const JsonFields& fields, const Json& settings) {
  Json own = with_defaults(fields, settings, kGlm4MoeDefaults);
  if (!fields.has("num_local_experts") && !fields.has("n_routed_experts")) own["n_routed_experts"] = 128;
  return own;
}

void read_glm4_moe(const JsonFields& fields, ModelConfig& config) {
  StackConfig& stack = config.stack;
  stack.qkv_bias = fields.boolean("attention_bias", false);
  stack.qk_norm = fields.boolean("use_qk_norm", false);
  MoeConfig moe = read_expert_sizes(fields, stack.n_layers, {.count = "n_routed_experts"});
  read_expert_groups(fields, moe);
  moe.routing.score = Routing::Score::kSigmoid;
  moe.routing.normalise = fields.boolean("norm_topk_prob", true);
  moe.routing.scale = static_cast<float>(fields.number("routed_scaling_factor", 0.0, 1e6, 1.0));
  moe.expert_bias = true;
  moe.shared_intermediate = static_cast<int32_t>(fields.integer("n_shared_experts", 0, 64) * moe.intermediate);
  const int64_t dense = fields.integer("first_k_dense_replace", 0, stack.n_layers, 1);
  for (int64_t i = 0; i < dense; ++i) moe.layers[static_cast<size_t>(i)] = false;
  stack.moe = std::move(moe);
  config.mtp.layers_key = "num_nextn_predict_layers";
  config.mtp.layers = static_cast<int32_t>(fields.integer(config.mtp.layers_key, 0, 1000, 1));
}

}  // namespace

const Family kGlm4Family = {.model_type = "glm4",
                            .tied_by_default = false,
                            .read = read_glm4,
                            .keys = {.missing_kv_heads = 2, .missing_head_dim = 128, .missing_rotary_factor = 0.5},
                            .layer_names = {.mixer_output_norm = "post_self_attn_layernorm",
                                            .mlp_output_norm = "post_mlp_layernorm",
                                            .fused_gate_up = "mlp.gate_up_proj",
                                            .interleaved_heads = true},
                            .sliding = SlidingLayers::kNone,
                            .rotates_part = true,
                            .complete = complete_glm4};

const Family kGlm4MoeFamily = {.model_type = "glm4_moe",
                               .tied_by_default = false,
                               .read = read_glm4_moe,
                               .keys = {.missing_kv_heads = 8, .missing_rotary_factor = 0.5},
                               .names = {.mtp = &kDeepSeekMtp},
                               .layer_names = {.expert_bias = "mlp.gate.e_score_correction_bias"},
                               .sliding = SlidingLayers::kNone,
                               .rotates_part = true,
                               .complete = complete_glm4_moe};

}  // namespace ashlar
