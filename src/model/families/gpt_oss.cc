// SPDX-License-Identifier: Apache-2.0
// gpt-oss (arXiv 2508.10925): every second layer with a window, a sink for each head, biases everywhere, and in every
// layer a mixture of experts whose gates and ups are kept in bounds. Published files have the experts in MXFP4.

#include <utility>

#include "model/families/family.h"

namespace ashlar {
namespace {

// What files leave to the class of transformers.
constexpr const char* kGptOssDefaults = R"({"rms_norm_eps": 1e-5, "num_local_experts": 128, "num_experts_per_tok": 4,
  "sliding_window": 128, "intermediate_size": 2880, "rope_theta": 150000.0})";
constexpr const char* kGptOssRope = R"({"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0,
  "truncate": false, "original_max_position_embeddings": 4096})";

Json complete_gpt_oss(const JsonFields& fields, const Json& settings) {
  Json own = settings;
  const Json defaults = parse_json(kGptOssDefaults, "built in");
  for (const auto& [key, value] : defaults.items()) {
    if (key == "num_local_experts" && fields.has("num_experts")) continue;  // its other name
    if (!fields.has(key)) own[key] = value;
  }
  if (!fields.has("rope_scaling") && !fields.has("rope_parameters"))
    own["rope_scaling"] = parse_json(kGptOssRope, "built in");
  own["use_sliding_window"] = true;  // the family does not read it
  own["moe_intermediate_size"] = own["intermediate_size"];
  if (fields.has("layer_types")) return own;
  const int64_t layers = fields.integer("num_hidden_layers", 1, 1000);
  own["layer_types"] = windows_but_each(2, layers);
  return own;
}

void read_gpt_oss(const JsonFields& fields, ModelConfig& config) {
  StackConfig& stack = config.stack;
  stack.qkv_bias = stack.output_bias = fields.boolean("attention_bias", true);
  stack.sinks = true;
  MoeConfig moe = read_expert_sizes(fields, stack.n_layers);
  // The softmax of the chosen logits alone: that of all, divided by the sum of the chosen.
  moe.routing.normalise = true;
  moe.router_bias = moe.biases = moe.by_turns = true;
  moe.gate.limit = static_cast<float>(fields.number("swiglu_limit", 1e-6, 1e6, 7.0));
  moe.gate.alpha = static_cast<float>(fields.number("swiglu_alpha", 1e-6, 1e6, 1.702));
  stack.moe = std::move(moe);
}

}  // namespace

const Family kGptOssFamily = {.model_type = "gpt_oss",
                              .tied_by_default = false,
                              .read = read_gpt_oss,
                              .keys = {.missing_kv_heads = 8, .missing_head_dim = 64},
                              .layer_names = {.router = "mlp.router",
                                              .merged_down = "mlp.experts.down_proj",
                                              .merged_gate_up = "mlp.experts.gate_up_proj"},
                              .complete = complete_gpt_oss};

}  // namespace ashlar
