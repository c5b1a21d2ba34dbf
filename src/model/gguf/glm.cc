// SPDX-License-Identifier: Apache-2.0
// GLM-4 of 2025, dense, and the mixtures GLM-4.5, 4.6 and 4.7.

#include "base/error.h"
#include "model/gguf/architecture.h"

namespace ashlar {
namespace {

void refuse_sections(const GgufKeys& keys) {
  const std::string sections = keys.full("rope.dimension_sections");
  if (!keys.file().has_array(sections)) return;
  throw Error("gguf", keys.file().path().string() + ": \"" + sections +
                          "\": expected nothing (models that see rotate by sections, and are not supported)");
}

void complete_gguf_glm(const GgufKeys& keys, const Checkpoint&, Json&) { refuse_sections(keys); }

// Some of them norm queries and keys, which their tensors say.
void complete_gguf_glm_moe(const GgufKeys& keys, const Checkpoint& checkpoint, Json& config) {
  refuse_sections(keys);
  constexpr GgufWord kWords[] = {{"expert_count", "n_routed_experts", true},
                                 {"expert_shared_count", "n_shared_experts", true},
                                 {"leading_dense_block_count", "first_k_dense_replace", true},
                                 {"expert_weights_scale", "routed_scaling_factor", false},
                                 {"expert_weights_norm", "norm_topk_prob", false},
                                 {"expert_group_count", "n_group", false},
                                 {"expert_group_used_count", "topk_group", false}};
  keys.translate(kWords, config);
  require_gating(keys, GgufGating::kSigmoid);
  config["num_nextn_predict_layers"] = drafting_layers(keys);
  config["use_qk_norm"] = has_layer_weight(checkpoint, 0, kGgufLayerNames.q_norm);
}

constexpr LayerNames gguf_glm_moe_names() {
  LayerNames names = shared_experts();
  names.post_norm = "post_attention_norm";
  names.expert_bias = "exp_probs_b.bias";
  return names;
}

}  // namespace

const GgufArchitecture kGgufGlm4 = {.name = "glm4",
                                    .family = "glm4",
                                    .names = interleaved(fused_gate_up()),
                                    .complete = complete_gguf_glm,
                                    .rotates_part = true};
const GgufArchitecture kGgufGlm4Moe = {.name = "glm4moe",
                                       .family = "glm4_moe",
                                       .names = gguf_glm_moe_names(),
                                       .complete = complete_gguf_glm_moe,
                                       .mixture = true,
                                       .shared_experts = true,
                                       .weighs_experts = true,
                                       .groups_experts = true,
                                       .rotates_part = true,
                                       .drafts = true};

}  // namespace ashlar
