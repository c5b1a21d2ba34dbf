#include "model/families/family.h"

namespace ashlar {

void read_qwen3_attention(const JsonFields& fields, StackConfig& stack) {
  stack.qk_norm = true;
  stack.qkv_bias = stack.output_bias = fields.boolean("attention_bias", false);
  // The class default is 128 for this family, whatever hidden_size / heads is.
  if (!fields.has("head_dim")) fields.fail("head_dim", "a number (this family states it)");
}

namespace {

void read(const JsonFields& fields, ModelConfig& config) { read_qwen3_attention(fields, config.stack); }

}  // namespace

const Family kQwen3Family = {"qwen3", false, read};

}  // namespace ashlar
