// SPDX-License-Identifier: Apache-2.0
#include "model/families/family.h"

namespace ashlar {

void read_qwen3_attention(const JsonFields& fields, StackConfig& stack) {
  stack.qk_norm = true;
  stack.qkv_bias = stack.output_bias = fields.boolean("attention_bias", false);
}

namespace {

void read_qwen3(const JsonFields& fields, ModelConfig& config) { read_qwen3_attention(fields, config.stack); }

}  // namespace

const Family kQwen3Family = {"qwen3", false, read_qwen3, {.missing_kv_heads = 32, .missing_head_dim = 128}};

}  // namespace ashlar
