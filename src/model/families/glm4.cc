// SPDX-License-Identifier: Apache-2.0
// GLM-4 of 2025 (dense): norms before and after mixer and MLP; the first half of each head is rotated, in pairs of
// neighbours; gates and ups in one tensor.

#include "model/families/family.h"

namespace ashlar {
namespace {

// What published files leave to the class of transformers.
constexpr int32_t kStops[] = {151329, 151336, 151338};

Json complete(const JsonFields& fields, const Json& settings) {
  Json own = settings;
  if (!fields.has("rms_norm_eps")) own["rms_norm_eps"] = 1.5625e-7;
  if (!fields.has("eos_token_id") && fields.integer("vocab_size", 1, 1 << 24) > kStops[2]) own["eos_token_id"] = kStops;
  return own;
}

void read(const JsonFields& fields, ModelConfig& config) {
  config.stack.qkv_bias = fields.boolean("attention_bias", true);
  config.stack.output_norms = true;
}

}  // namespace

const Family kGlm4Family = {.model_type = "glm4",
                            .tied_by_default = false,
                            .read = read,
                            .keys = {.missing_kv_heads = 2, .missing_head_dim = 128, .missing_rotary_factor = 0.5},
                            .layer_names = {.mixer_output_norm = "post_self_attn_layernorm",
                                            .mlp_output_norm = "post_mlp_layernorm",
                                            .fused_gate_up = "mlp.gate_up_proj",
                                            .interleaved_heads = true},
                            .sliding = SlidingLayers::kNone,
                            .rotates_part = true,
                            .complete = complete};

}  // namespace ashlar
