// SPDX-License-Identifier: Apache-2.0
// LLaDA2.x (arXiv 2512.15745): the Ling family's mixture of experts made to denoise blocks of 32. Groups of experts,
// sigmoid scores, a bias for the choice only, shared experts, dense first layers, rotary embedding of the first half of
// each head.

#include "model/families/family.h"

namespace ashlar {
namespace {

constexpr BlockDiffusion kLlada2Usual = {.block_size = 32, .mask_id = 156895};

constexpr ModelNames kLlada2Names = {.embedding = "model.word_embeddings"};
constexpr LayerNames kLlada2LayerNames = {.fused_qkv = "attention.query_key_value",
                                          .q_norm = "attention.query_layernorm",
                                          .k_norm = "attention.key_layernorm",
                                          .attention_output = "attention.dense"};

void read_routing(const JsonFields& fields, MoeConfig& moe) {
  Routing& routing = moe.routing;
  const std::string score = fields.string("score_function", "sigmoid");
  if (score != "sigmoid" && score != "softmax") fields.fail("score_function", "sigmoid or softmax");
  routing.score = score == "sigmoid" ? Routing::Score::kSigmoid : Routing::Score::kSoftmax;
  read_expert_groups(fields, moe);
  // A single choice is not divided by itself.
  require_switch(fields, "norm_topk_prob", true, true);
  routing.normalise = routing.top_k > 1;
  routing.scale = static_cast<float>(fields.number("routed_scaling_factor", 0.0, 1e6));
}

void read_llada2(const JsonFields& fields, ModelConfig& config) {
  StackConfig& stack = config.stack;
  if (!fields.has("head_dim")) fields.fail("head_dim", "a number (this family states it)");
  if (!fields.has("rope_theta") && !fields.has("rope_parameters")) fields.fail("rope_theta", "a number");
  if (!fields.has("partial_rotary_factor")) fields.fail("partial_rotary_factor", "a number");
  const int32_t rotary_dim = stack.layers[0].rope.rotary_dim(stack.layers[0].shape.head_dim);
  if (fields.integer("rotary_dim", 0, 512, rotary_dim) != rotary_dim) {
    fields.fail("rotary_dim", std::to_string(rotary_dim) + ", which is head_dim * partial_rotary_factor");
  }
  for (const char* key : {"using_split_qkv_in_self_attention", "norm_head", "norm_softmax", "use_sliding_window"}) {
    require_switch(fields, key, false, false);
  }
  stack.qk_norm = fields.boolean("use_qk_norm", true);
  stack.qkv_bias = fields.boolean("use_qkv_bias", false);
  stack.output_bias = fields.boolean("use_bias", false);

  MoeConfig moe = read_expert_sizes(fields, stack.n_layers);
  read_routing(fields, moe);
  moe.expert_bias = fields.boolean("moe_router_enable_expert_bias", true);
  const int64_t shared = fields.integer("num_shared_experts", 0, 64, 0);
  moe.shared_intermediate = static_cast<int32_t>(shared * moe.intermediate);
  const int64_t dense = fields.integer("first_k_dense_replace", 0, stack.n_layers);
  for (int64_t i = 0; i < dense; ++i) moe.layers[i] = false;
  stack.moe = std::move(moe);
  read_diffusion(fields, kLlada2Usual, config);
}

}  // namespace

const Family kLlada2Family = {.model_type = "llada2_moe",
                              .tied_by_default = false,
                              .read = read_llada2,
                              .names = kLlada2Names,
                              .layer_names = kLlada2LayerNames,
                              .rotates_part = true};
/// As the training code spells it.
const Family kLlada2VeomniFamily = {.model_type = "llada2_moe_veomni",
                                    .tied_by_default = false,
                                    .read = read_llada2,
                                    .names = kLlada2Names,
                                    .layer_names = kLlada2LayerNames,
                                    .rotates_part = true};

}  // namespace ashlar
