// SPDX-License-Identifier: Apache-2.0
// LFM2's mixtures of experts (LFM2-8B-A1B and its kin): its layers, and in all but the first few experts that a sigmoid
// scores; a bias has a say in which are chosen, and not in what they count.

#include "model/families/family.h"

namespace ashlar {
namespace {

// What published files leave to the class of transformers.
constexpr const char* kLfm2MoeDefaults = R"({"vocab_size": 65536, "hidden_size": 2048, "intermediate_size": 7168,
  "moe_intermediate_size": 1792, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
  "max_position_embeddings": 128000, "num_experts": 32, "num_experts_per_tok": 4, "rope_theta": 1e6})";

Json complete_lfm2_moe(const JsonFields& fields, const Json& settings) {
  return complete_lfm2(fields, settings, kLfm2MoeDefaults);
}

void read_lfm2_moe(const JsonFields& fields, ModelConfig& config) {
  StackConfig& stack = config.stack;
  read_lfm2_layers(fields, stack);
  MoeConfig moe = read_expert_sizes(fields, stack.n_layers);
  moe.routing.score = Routing::Score::kSigmoid;
  moe.routing.normalise = fields.boolean("norm_topk_prob", true);
  moe.routing.scale = static_cast<float>(fields.number("routed_scaling_factor", 0.0, 1e6, 1.0));
  moe.expert_bias = fields.boolean("use_expert_bias", true);
  const int64_t dense = fields.integer("num_dense_layers", 0, stack.n_layers, 2);
  for (int64_t i = 0; i < dense; ++i) moe.layers[static_cast<size_t>(i)] = false;
  stack.moe = std::move(moe);
}

LayerNames lfm2_moe_names() {
  LayerNames names = kLfm2LayerNames;
  names.router = "feed_forward.gate";
  names.expert_bias = "feed_forward.expert_bias";
  names.experts = "feed_forward.experts.";
  names.merged_gate_up = "feed_forward.experts.gate_up_proj";
  names.merged_down = "feed_forward.experts.down_proj";
  return names;
}

}  // namespace

const Family kLfm2MoeFamily = {.model_type = "lfm2_moe",
                               .tied_by_default = true,
                               .read = read_lfm2_moe,
                               .keys = {.tied_head = "tie_embedding"},
                               .names = {.norm = "model.embedding_norm"},
                               .layer_names = lfm2_moe_names(),
                               .sliding = SlidingLayers::kNone,
                               .missing_stop_id = 2,
                               .complete = complete_lfm2_moe};

}  // namespace ashlar
