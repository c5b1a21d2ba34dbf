// SPDX-License-Identifier: Apache-2.0
// Qwen3.5, its successors of the same architecture and Qwen3-Next, its older sibling: three gated delta nets, then
// attention with an output gate; an MLP or a mixture of experts with a gated shared one. Checkpoints may hold a vision
// tower, which the text model does not need, and a layer that drafts (MTP).

#include <utility>

#include "model/families/family.h"

namespace ashlar {
namespace {

std::vector<bool> read_delta_layers(const JsonFields& fields, int32_t n_layers) {
  if (fields.has("layer_types")) return read_layers_of_type(fields, n_layers, "linear_attention");
  std::vector<bool> layers(static_cast<size_t>(n_layers));
  const int64_t interval = fields.integer("full_attention_interval", 1, 1000, 4);
  for (int32_t i = 0; i < n_layers; ++i) layers[i] = (i + 1) % interval != 0;
  return layers;
}

DeltaShape read_delta_shape(const JsonFields& fields) {
  const auto size = [&fields](const char* key, int64_t most, int64_t fallback) {
    return static_cast<int32_t>(fields.integer(key, 1, most, fallback));
  };
  DeltaShape shape;
  shape.n_k_heads = size("linear_num_key_heads", 1024, 16);
  shape.n_v_heads = size("linear_num_value_heads", 1024, 32);
  shape.k_dim = size("linear_key_head_dim", kMaxHeadDim, 128);
  shape.v_dim = size("linear_value_head_dim", kMaxHeadDim, 128);
  shape.taps = size("linear_conv_kernel_dim", 16, 4);
  if (shape.n_v_heads % shape.n_k_heads != 0) {
    fields.fail("linear_num_value_heads",
                "a multiple of linear_num_key_heads (" + std::to_string(shape.n_k_heads) + ")");
  }
  return shape;
}

void read_qwen3_5(const JsonFields& fields, ModelConfig& config) {
  StackConfig& stack = config.stack;
  require_switch(fields, "attention_bias", false, false);
  require_switch(fields, "attn_output_gate", true, true);
  stack.qk_norm = stack.output_gate = stack.norms_from_one = true;
  stack.delta_net = DeltaNetConfig{read_delta_layers(fields, stack.n_layers), read_delta_shape(fields)};
  config.mtp.layers = static_cast<int32_t>(fields.integer("mtp_num_hidden_layers", 0, 1000, 1));
  config.mtp.own_vocabulary = fields.boolean("mtp_use_dedicated_embeddings", false);
}

void read_shared_expert(const JsonFields& fields, MoeConfig& moe) {
  moe.shared_intermediate = static_cast<int32_t>(fields.integer("shared_expert_intermediate_size", 1, 1 << 20));
  moe.shared_gate = true;
}

void read_qwen3_5_moe(const JsonFields& fields, ModelConfig& config) {
  read_qwen3_5(fields, config);
  MoeConfig moe = read_expert_sizes(fields, config.stack.n_layers);
  require_switch(fields, "norm_topk_prob", true, true);
  moe.routing.normalise = true;
  read_shared_expert(fields, moe);
  config.stack.moe = std::move(moe);
}

// Mixtures of any layers, whose weights need not add up to one.
void read_next(const JsonFields& fields, ModelConfig& config) {
  read_qwen3_5(fields, config);
  MoeConfig moe = read_qwen3_moe(fields, config.stack);
  moe.routing.normalise = fields.boolean("norm_topk_prob", true);
  read_shared_expert(fields, moe);
  config.stack.moe = std::move(moe);
}

constexpr ModelNames kQwen35Inside = {.embedding = "model.language_model.embed_tokens",
                                      .layers = "model.language_model.layers.",
                                      .norm = "model.language_model.norm",
                                      .unused = {"model.visual."},
                                      .mtp = &kQwenMtp};
constexpr ConfigKeys kQwen35Keys = {.missing_kv_heads = 4, .missing_head_dim = 256, .missing_rotary_factor = 0.25};

constexpr Family kQwen35Text = {.model_type = "qwen3_5_text",
                                .tied_by_default = false,
                                .read = read_qwen3_5,
                                .keys = kQwen35Keys,
                                .names = {.unused = {"model.visual."}, .mtp = &kQwenMtp},
                                .sliding = SlidingLayers::kNone,
                                .rotates_part = true,
                                .other_names = &kQwen35Inside};

constexpr Family qwen3_5_with_vision(Family family, const char* model_type) {
  family.model_type = model_type;
  family.settings = "text_config";
  return family;
}

constexpr Family with_experts() {
  Family family = kQwen35Text;
  family.model_type = "qwen3_5_moe_text";
  family.read = read_qwen3_5_moe;
  family.keys.intermediate = "moe_intermediate_size";
  family.keys.missing_kv_heads = 2;
  family.layer_names.shared_experts = "mlp.shared_expert.";
  return family;
}

constexpr Family before_qwen3_5() {
  Family family = kQwen35Text;
  family.model_type = "qwen3_next";
  family.read = read_next;
  family.names = {.mtp = &kQwenMtp};
  family.other_names = nullptr;
  family.keys.missing_kv_heads = 2;
  family.layer_names.shared_experts = "mlp.shared_expert.";
  family.layer_names.fused_delta_qkvz = "linear_attn.in_proj_qkvz";
  family.layer_names.fused_delta_ba = "linear_attn.in_proj_ba";
  return family;
}

}  // namespace

const Family kQwen3NextFamily = before_qwen3_5();
const Family kQwen35TextFamily = kQwen35Text;
const Family kQwen35Family = qwen3_5_with_vision(kQwen35Text, "qwen3_5");
const Family kQwen35MoeTextFamily = with_experts();
const Family kQwen35MoeFamily = qwen3_5_with_vision(with_experts(), "qwen3_5_moe");

}  // namespace ashlar
