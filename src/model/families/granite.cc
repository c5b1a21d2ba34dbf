// SPDX-License-Identifier: Apache-2.0
// Granite 3: a Llama with multipliers for embeddings, attention, what layers add, and logits.

#include "model/families/family.h"

namespace ashlar {
namespace {

constexpr double kLeast = 1e-6, kMost = 1e6;  // of any multiplier

void read_granite(const JsonFields& fields, ModelConfig& config) {
  StackConfig& stack = config.stack;
  stack.qkv_bias = stack.output_bias = fields.boolean("attention_bias", false);
  stack.mlp_bias = fields.boolean("mlp_bias", false);
  const auto multiplier = [&fields](const char* key) {
    return static_cast<float>(fields.number(key, kLeast, kMost, 1.0));
  };
  for (LayerAttention& layer : stack.layers) layer.shape.scale = multiplier("attention_multiplier");
  stack.residual_scale = multiplier("residual_multiplier");
  config.embedding_scale = multiplier("embedding_multiplier");
  config.logit_scale = 1.0F / multiplier("logits_scaling");
}

}  // namespace

const Family kGraniteFamily = {.model_type = "granite",
                               .tied_by_default = false,
                               .read = read_granite,
                               .sliding = SlidingLayers::kNone,
                               .missing_stop_id = 2};

}  // namespace ashlar
