// SPDX-License-Identifier: Apache-2.0
// LFM2 and LFM2.5 (Liquid AI): gated short convolutions, with attention in some layers, whose queries and keys are
// normed; names of its own for nearly everything.

#include <algorithm>

#include "model/families/family.h"

namespace ashlar {
namespace {

// What published files leave to the class of transformers.
constexpr const char* kLfm2Defaults = R"({"vocab_size": 65536, "hidden_size": 2560, "num_hidden_layers": 32,
  "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 128000,
  "rope_theta": 1e6})";
constexpr double kUsualEps = 1e-5;

// The width that a file means: two thirds of the one it says, times a factor, rounded up to whole pieces.
int64_t mlp_width(const JsonFields& fields, const Json& settings) {
  const char* const key = fields.has("block_ff_dim") ? "block_ff_dim" : "intermediate_size";
  int64_t width = fields.integer(key, 1, 1 << 20, 12288);
  if (!fields.boolean("block_auto_adjust_ff_dim", true)) return width;
  width = 2 * width / 3;
  if (settings.contains("block_ffn_dim_multiplier") && !fields.has("block_ffn_dim_multiplier")) return width;
  const double factor = fields.number("block_ffn_dim_multiplier", 1e-3, 1e3, 1.0);
  const int64_t piece = fields.integer("block_multiple_of", 1, 1 << 20, 256);
  return (static_cast<int64_t>(factor * static_cast<double>(width)) + piece - 1) / piece * piece;
}

std::vector<bool> read_conv_layers(const JsonFields& fields, int32_t n_layers) {
  if (fields.has("layer_types")) return read_layers_of_type(fields, n_layers, "conv");
  std::vector<bool> layers(static_cast<size_t>(n_layers), fields.has("full_attn_idxs"));
  if (!fields.has("full_attn_idxs")) return layers;
  for (const int32_t attention : fields.integers("full_attn_idxs", 0, n_layers - 1)) {
    layers[static_cast<size_t>(attention)] = false;
  }
  return layers;
}

}  // namespace

void read_lfm2_layers(const JsonFields& fields, StackConfig& stack) {
  stack.qk_norm = true;
  ShortConvConfig conv;
  conv.layers = read_conv_layers(fields, stack.n_layers);
  conv.shape = {stack.hidden, static_cast<int32_t>(fields.integer("conv_L_cache", 1, kMaxShortConvTaps, 3))};
  conv.bias = fields.boolean("conv_bias", false);
  if (std::ranges::count(conv.layers, true) > 0) stack.short_conv = std::move(conv);
}

Json complete_lfm2(const JsonFields& fields, const Json& settings, const char* defaults) {
  Json own = with_defaults(fields, settings, defaults);
  own["rms_norm_eps"] = fields.number("norm_eps", 0.0, 1.0, kUsualEps);
  if (!fields.has("tie_embedding")) own["tie_embedding"] = fields.boolean("tie_word_embeddings", true);
  return own;
}

namespace {

Json complete_lfm2(const JsonFields& fields, const Json& settings) {
  Json own = complete_lfm2(fields, settings, kLfm2Defaults);
  own["intermediate_size"] = mlp_width(fields, settings);
  return own;
}

void read_lfm2(const JsonFields& fields, ModelConfig& config) { read_lfm2_layers(fields, config.stack); }

}  // namespace

const LayerNames kLfm2LayerNames = {.input_norm = "operator_norm",
                                    .post_norm = "ffn_norm",
                                    .q_norm = "self_attn.q_layernorm",
                                    .k_norm = "self_attn.k_layernorm",
                                    .attention_output = "self_attn.out_proj",
                                    .gate = "feed_forward.w1",
                                    .up = "feed_forward.w3",
                                    .down = "feed_forward.w2"};

const Family kLfm2Family = {.model_type = "lfm2",
                            .tied_by_default = true,
                            .read = read_lfm2,
                            .keys = {.tied_head = "tie_embedding"},
                            .names = {.norm = "model.embedding_norm"},
                            .layer_names = kLfm2LayerNames,
                            .sliding = SlidingLayers::kNone,
                            .missing_stop_id = 2,
                            .complete = complete_lfm2};

}  // namespace ashlar
