// SPDX-License-Identifier: Apache-2.0
// Qwen3-MoE: Qwen3's attention; softmax over all experts, no shared one.

#include "model/families/family.h"

namespace ashlar {

MoeConfig read_qwen3_moe(const JsonFields& fields, const StackConfig& stack) {
  MoeConfig moe = read_expert_sizes(fields, stack.n_layers);
  moe.routing.normalise = fields.boolean("norm_topk_prob", false);
  const int64_t step = fields.integer("decoder_sparse_step", 1, 1000, 1);
  for (int32_t i = 0; i < stack.n_layers; ++i) moe.layers[i] = (i + 1) % step == 0;
  if (fields.has("mlp_only_layers")) {
    for (const int32_t dense : fields.integers("mlp_only_layers", 0, stack.n_layers - 1)) moe.layers[dense] = false;
  }
  return moe;
}

namespace {

void read_qwen3_moe(const JsonFields& fields, ModelConfig& config) {
  read_qwen3_attention(fields, config.stack);
  config.stack.moe = read_qwen3_moe(fields, config.stack);
}

}  // namespace

const Family kQwen3MoeFamily = {.model_type = "qwen3_moe",
                                .tied_by_default = false,
                                .read = read_qwen3_moe,
                                .keys = {.missing_kv_heads = 4},
                                .sliding = SlidingLayers::kAll};

}  // namespace ashlar
