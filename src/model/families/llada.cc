// SPDX-License-Identifier: Apache-2.0
// LLaDA (arXiv 2502.09992): a Llama that sees the whole sequence, in the spelling of the OLMo code it was trained with.

#include "model/families/family.h"

namespace ashlar {
namespace {

constexpr BlockDiffusion kLladaUsual = {.mask_id = 126336};

constexpr ConfigKeys kLladaKeys = {.hidden = "d_model",
                                   .intermediate = "mlp_hidden_size",
                                   .layers = "n_layers",
                                   .heads = "n_heads",
                                   .kv_heads = "n_kv_heads",
                                   .activation = "activation_type",
                                   .max_positions = "max_sequence_length",
                                   .tied_head = "weight_tying"};
constexpr ModelNames kLladaNames = {.embedding = "model.transformer.wte",
                                    .layers = "model.transformer.blocks.",
                                    .norm = "model.transformer.ln_f",
                                    .head = "model.transformer.ff_out"};
constexpr LayerNames kLladaLayerNames = {.input_norm = "attn_norm",
                                         .post_norm = "ff_norm",
                                         .q = "q_proj",
                                         .k = "k_proj",
                                         .v = "v_proj",
                                         .attention_output = "attn_out",
                                         .gate = "ff_proj",
                                         .up = "up_proj",
                                         .down = "ff_out"};

void require_word(const JsonFields& fields, const char* key, const char* expected) {
  if (fields.string(key, expected) != expected) fields.fail(key, std::string("\"") + expected + "\"");
}

void read_llada(const JsonFields& fields, ModelConfig& config) {
  require_word(fields, "block_type", "llama");
  require_word(fields, "layer_norm_type", "rms");
  for (const char* key : {"alibi", "attention_layer_norm", "input_emb_norm", "scale_logits", "include_bias",
                          "bias_for_layer_norm", "multi_query_attention"}) {
    require_switch(fields, key, false, false);
  }
  require_switch(fields, "rope", true, true);
  if (fields.has("clip_qkv")) fields.fail("clip_qkv", "nothing");
  if (fields.integer("block_group_size", 1, 1000, 1) != 1) fields.fail("block_group_size", "1");
  if (fields.integer("embedding_size", 1, 1 << 24, config.vocab) != config.vocab) {
    fields.fail("embedding_size", "vocab_size (" + std::to_string(config.vocab) + ")");
  }
  config.stack.qkv_bias = fields.boolean("include_qkv_bias", false);
  read_diffusion(fields, kLladaUsual, config);
}

}  // namespace

const Family kLladaFamily = {"llada", false, read_llada, kLladaKeys, kLladaNames, kLladaLayerNames};

}  // namespace ashlar
