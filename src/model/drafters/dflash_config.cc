// SPDX-License-Identifier: Apache-2.0
#include "model/drafters/dflash_config.h"

#include <algorithm>

#include "base/error.h"
#include "io/mapped_file.h"
#include "model/drafters/gguf_drafter.h"
#include "model/drafters/head_config.h"

namespace ashlar {
namespace {

constexpr int64_t kMaxBlock = 256;
constexpr double kMaxScale = 1e6;
constexpr size_t kMaxAuxLayers = 1000;  // times the largest hidden size is still an int32

// Fields that change the forward in ways this drafter does not compute.
void refuse_variants(const JsonFields& fields) {
  for (const char* key : {"attention_sink_bias", "attention_value_scale"}) {
    if (fields.has(key) && fields.raw(key) != Json(false)) {
      fields.fail(key, "nothing (this DFlash variant is not supported)");
    }
  }
}

void resolve_causality(const JsonFields& fields, const JsonFields* variant, DflashConfig& config) {
  for (LayerAttention& layer : config.stack.layers) {
    layer.causal = layer.window > 0;
    if (variant != nullptr && variant->has("causal")) layer.causal = variant->boolean("causal", false);
    if (variant != nullptr && variant->boolean("causal_head", false)) layer.causal = true;
    if (fields.has("is_causal")) layer.causal = fields.boolean("is_causal", false);
  }
}

/// `config.target_layers`: read before; 0: not stated.
void read_zlab(const JsonFields& fields, DflashConfig& config) {
  config.stack = read_stack_config(fields);
  config.stack.qk_norm = true;
  config.stack.qkv_bias = config.stack.output_bias = fields.boolean("attention_bias", false);
  config.vocab = static_cast<int32_t>(fields.integer("vocab_size", 1, 1 << 24));
  config.target_hidden = static_cast<int32_t>(fields.integer("target_hidden_size", 1, 1 << 20, config.stack.hidden));
  config.max_positions = static_cast<int32_t>(fields.integer("max_position_embeddings", 1, 1 << 24));
  const JsonFields variant = fields.has("dflash_config") ? fields.object("dflash_config") : fields;
  config.draft_vocab = static_cast<int32_t>(variant.integer("draft_vocab_size", 1, config.vocab, config.vocab));
  config.head = head_of_zlab(fields, variant);
  refuse_variants(fields);
  refuse_variants(variant);
  const JsonFields& holder = fields.has("block_size") ? fields : variant;
  config.block_size = static_cast<int32_t>(holder.integer("block_size", 2, kMaxBlock));
  config.mask_id = static_cast<int32_t>(variant.integer("mask_token_id", 0, config.vocab - 1));
  config.aux_layers = read_layer_ids(variant, config.ids.key, config.ids.first, config.target_layers);
  config.embedding_scale = static_cast<float>(variant.number("input_embedding_scale", -kMaxScale, kMaxScale, 1.0));
  config.output_multiplier = static_cast<float>(variant.number("output_multiplier", -kMaxScale, kMaxScale, 1.0));
  config.softcap = static_cast<float>(variant.number("final_logit_softcapping", 0.0, kMaxScale, 0.0));
  config.sample_from_anchor = variant.boolean("sample_from_anchor", fields.boolean("sample_from_anchor", false));
  if (variant.boolean("use_swa", false) && variant.has("swa_window_size") && !fields.has("layer_types")) {
    for (LayerAttention& layer : config.stack.layers) {
      layer.window = static_cast<int32_t>(variant.integer("swa_window_size", 1, 1 << 24));
    }
  }
  resolve_causality(fields, &variant, config);
  read_head(variant, fields, MissingValues::kRefused, config);
  // A part of the vocabulary needs a head and a table of ids, which not every head comes with.
  if (config.draft_vocab != config.vocab && !config.may_own_vocabulary) {
    variant.fail("draft_vocab_size",
                 std::to_string(config.vocab) + " or nothing: this head's drafts are of the whole vocabulary");
  }
}

void read_speculators(const JsonFields& fields, DflashConfig& config) {
  config.head = head_of_speculators(fields);
  const JsonFields layers = fields.object("transformer_layer_config");
  config.stack = read_stack_config(layers);
  config.stack.qk_norm = true;
  config.stack.qkv_bias = config.stack.output_bias = layers.boolean("attention_bias", false);
  config.vocab = static_cast<int32_t>(layers.integer("vocab_size", 1, 1 << 24));
  config.draft_vocab = static_cast<int32_t>(fields.integer("draft_vocab_size", 1, config.vocab, config.vocab));
  config.target_hidden = static_cast<int32_t>(fields.integer("target_hidden_size", 1, 1 << 20, config.stack.hidden));
  config.max_positions = static_cast<int32_t>(layers.integer("max_position_embeddings", 1, 1 << 24));
  config.block_size = static_cast<int32_t>(fields.integer("block_size", 2, kMaxBlock, 8));
  config.mask_id = static_cast<int32_t>(fields.integer("mask_token_id", 0, config.vocab - 1));
  config.sample_from_anchor = fields.boolean("sample_from_anchor", false);
  config.own_vocabulary = true;
  config.ids = {"aux_hidden_state_layer_ids", 1};
  config.aux_layers = read_layer_ids(fields, config.ids.key, config.ids.first, 0);
  read_head(fields, fields, MissingValues::kSpeculatorsDefaults, config);
  // Heads that convolve are trained to look both ways.
  const bool non_causal = fields.boolean("sliding_window_non_causal", config.stack.block_conv.has_value());
  for (LayerAttention& layer : config.stack.layers) layer.causal = layer.window > 0 && !non_causal;
}

// What others put into dflash_config, DeepSpec leaves among the keys around it.
bool is_flat(const Json& root) { return root.contains("target_layer_ids") && root.contains("mask_token_id"); }

// What the fields are each allowed to be, but not together.
void check_sizes(const DflashConfig& config, const std::string& where) {
  const auto fail = [&](const std::string& what) { throw Error("drafter", where + ": " + what); };
  if (config.aux_layers.empty()) fail("names no target layers to read from");
  if (config.aux_layers.size() > kMaxAuxLayers) {
    fail("reads from " + std::to_string(config.aux_layers.size()) + " target layers; expected at most " +
         std::to_string(kMaxAuxLayers));
  }
  const int32_t last = config.target_layers > 0 ? config.target_layers - 1 : INT32_MAX;
  for (const int32_t layer : config.aux_layers) {
    if (layer >= 0 && layer <= last) continue;
    fail("would read from target layer " + std::to_string(layer) + "; expected 0 to " + std::to_string(last));
  }
  // K and V of all layers are one product.
  int64_t width = 0;
  for (const LayerAttention& layer : config.stack.layers) width += layer.shape.kv_width();
  if (width > (1 << 23)) {
    fail("has " + std::to_string(config.stack.n_layers) + " layers with keys of width " + std::to_string(width) +
         " together; expected at most 2^23");
  }
}

}  // namespace

bool is_dflash_folder(const std::filesystem::path& folder) {
  if (is_gguf_of(folder, "dflash")) return true;
  const auto path = folder / "config.json";
  if (!file_exists(path)) return false;
  const Json root = read_json_file(path);
  return root.is_object() &&
         (root.contains("dflash_config") || root.contains("speculators_model_type") || is_flat(root));
}

DflashConfig read_dflash_config(const std::filesystem::path& folder) {
  const auto [root, where, from_gguf] = read_drafter_words(folder, "a DFlash", words_of_gguf_dflash);
  const JsonFields fields(root, where, "drafter");
  DflashConfig config;
  config.folder = folder;
  if (fields.has("speculators_model_type")) {
    read_speculators(fields, config);
  } else if (from_gguf) {
    config.may_own_vocabulary = config.tied_head = true;
    read_zlab(fields, config);
    use_gguf_layers(folder, "dflash", config.stack);
    config.names = names_of_gguf_drafter();
    config.ids = kGgufLayerIds;
  } else if (fields.has("dflash_config") || is_flat(root)) {
    config.target_layers = static_cast<int32_t>(fields.integer("num_target_layers", 1, 1000));
    read_zlab(fields, config);
  } else {
    fields.fail("dflash_config", "the settings of a DFlash drafter (or speculators_model_type)");
  }
  check_sizes(config, where);
  return config;
}

void check_fit(const DflashConfig& drafter, const ModelConfig& target) {
  const DrafterFit fit(drafter.folder, target);
  if (drafter.target_layers > 0) fit.expect("a layer count of", drafter.target_layers, target.stack.n_layers);
  fit.expect_states(drafter.aux_layers, drafter.target_hidden);
  if (!drafter.own_vocabulary) fit.expect("an embedding width of", drafter.stack.hidden, target.stack.hidden);
  fit.expect("a vocabulary of", drafter.vocab, target.vocab);
}

}  // namespace ashlar
