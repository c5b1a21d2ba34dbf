// SPDX-License-Identifier: Apache-2.0
#include "model/families/family.h"

namespace ashlar {
namespace {

void read_llama(const JsonFields& fields, ModelConfig& config) {
  StackConfig& stack = config.stack;
  stack.qkv_bias = stack.output_bias = fields.boolean("attention_bias", false);
  stack.mlp_bias = fields.boolean("mlp_bias", false);
}

}  // namespace

const Family kLlamaFamily = {.model_type = "llama",
                             .tied_by_default = false,
                             .read = read_llama,
                             .sliding = SlidingLayers::kNone,
                             .missing_stop_id = 2};

}  // namespace ashlar
