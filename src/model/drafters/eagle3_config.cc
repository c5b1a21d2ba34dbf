// SPDX-License-Identifier: Apache-2.0
#include "model/drafters/eagle3_config.h"

#include <algorithm>

#include "base/error.h"
#include "io/mapped_file.h"
#include "model/drafters/gguf_drafter.h"

namespace ashlar {
namespace {

constexpr const char* kType = "speculators_model_type";
constexpr const char* kParallel = kEagle3Types[1];
constexpr const char* kLayerIds = "eagle_aux_hidden_state_layer_ids";
constexpr int32_t kAuxLayers = 3;  // where nothing else is said
constexpr int64_t kMaxChain = 256;

// "LlamaForCausalLMEagle3", "Eagle3LlamaForCausalLM", "Eagle3DraftModel", "PEagleSpeculator".
bool names_eagle3(const Json& root) {
  if (!root.contains("architectures") || !root["architectures"].is_array()) return false;
  return std::ranges::any_of(root["architectures"], [](const Json& name) {
    return name.is_string() && (name.get<std::string>().find("Eagle3") != std::string::npos ||
                                name.get<std::string>().find("PEagle") != std::string::npos);
  });
}

// `first`: the id of what the target's first layer leaves.
void read_aux_layers(const JsonFields& fields, int32_t first, Eagle3Config& config) {
  if (!fields.has(kLayerIds)) return;
  config.aux_layers = read_layer_ids(fields, kLayerIds, first, 0);
  config.ids = {kLayerIds, first};
  if (config.aux_layers.empty() || config.aux_layers.size() > 64) fields.fail(kLayerIds, "1 to 64 layers");
}

void read_layer(const JsonFields& layer, Eagle3Config& config) {
  config.stack = read_stack_config(layer);
  const std::string type = layer.string("model_type", "llama");
  if (type != "llama" && type != "qwen3") layer.fail("model_type", "llama or qwen3");
  config.stack.qk_norm = type == "qwen3";
  config.stack.qkv_bias = config.stack.output_bias = layer.boolean("attention_bias", false);
  config.stack.mlp_bias = layer.boolean("mlp_bias", false);
  config.vocab = static_cast<int32_t>(layer.integer("vocab_size", 1, 1 << 24));
  config.tied_head = layer.boolean("tie_word_embeddings", false);
  config.max_positions =
      static_cast<int32_t>(layer.integer("max_position_embeddings", 1, 1 << 24, config.max_positions));
}

void read_switches(const JsonFields& fields, Eagle3Config& config) {
  config.draft_vocab = static_cast<int32_t>(fields.integer("draft_vocab_size", 1, config.vocab, config.vocab));
  config.target_hidden = static_cast<int32_t>(fields.integer("target_hidden_size", 1, 1 << 20, config.stack.hidden));
  // In this form tools disagree about what a missing one means, and a guess may draft badly.
  if (fields.has(kType) && !fields.has("norm_before_residual")) fields.fail("norm_before_residual", "true or false");
  config.block_size = static_cast<int32_t>(fields.integer("block_size", 2, kMaxChain, config.block_size));
  config.normed_residual = fields.boolean("norm_before_residual", false);
  config.normed_output = fields.boolean("norm_output", false);
  config.norms_each = fields.boolean("fc_norm", false);
  config.norms_all = fields.boolean("norm_before_fc", false);
  if (config.norms_each && config.norms_all) fields.fail("fc_norm", "false, since norm_before_fc is set");
}

// P-EAGLE says which token is the mask, by either name.
void read_mask(const JsonFields& fields, Eagle3Config& config) {
  const bool is_parallel = fields.has(kType) && fields.string(kType) == kParallel;
  for (const char* key : {"mask_token_id", "ptd_token_id"}) {
    if (fields.has(key)) config.mask_id = static_cast<int32_t>(fields.integer(key, 0, config.vocab - 1));
  }
  if (is_parallel && config.mask_id < 0) fields.fail("mask_token_id", "the token that stands for drafts");
}

}  // namespace

bool is_eagle3_folder(const std::filesystem::path& folder) {
  if (is_gguf_of(folder, "eagle3")) return true;
  const auto path = folder / "config.json";
  if (!file_exists(path)) return false;
  const Json root = read_json_file(path);
  if (!root.is_object()) return false;
  if (root.contains(kType)) {
    return std::ranges::any_of(kEagle3Types, [&](const char* type) { return root[kType] == type; });
  }
  return root.contains("eagle_config") || names_eagle3(root);
}

Eagle3Config read_eagle3_config(const std::filesystem::path& folder) {
  const auto [root, where, from_gguf] = read_drafter_words(folder, "an EAGLE-3", words_of_gguf_eagle3);
  const JsonFields fields(root, where, "drafter");
  Eagle3Config config;
  config.folder = folder;
  read_layer(fields.has(kType) ? fields.object("transformer_layer_config") : fields, config);
  read_switches(fields, config);
  read_mask(fields, config);
  // The file's own ids count what enters a layer, as vLLM does, those of eagle_config what leaves it, as SGLang does.
  read_aux_layers(fields, 1, config);
  if (fields.has("eagle_config")) {
    const JsonFields own = fields.object("eagle_config");
    if (!own.boolean("use_aux_hidden_state", true)) own.fail("use_aux_hidden_state", "true");
    if (config.aux_layers.empty()) read_aux_layers(own, 0, config);
  }
  if (from_gguf) {
    use_gguf_layers(folder, "eagle3", config.stack);
    config.stack.names.interleaved_heads = true;  // as files of the architecture llama
    config.names = names_of_gguf_drafter();
    config.ids = kGgufLayerIds;
  }
  return config;
}

void fit_to_target(Eagle3Config& drafter, const ModelConfig& target) {
  const DrafterFit fit(drafter.folder, target);
  const int32_t layers = target.stack.n_layers;
  if (drafter.aux_layers.empty()) {
    if (layers < 2 * kAuxLayers) {
      throw Error("drafter", drafter.folder.string() + ": config.json has no " + kLayerIds + ", and " +
                                 target.folder.string() + " has " + std::to_string(layers) +
                                 " layers, too few for the usual ones: after 1, half of them, and all but 4");
    }
    drafter.aux_layers = {1, layers / 2 - 1, layers - 4};
  }
  fit.expect_states(drafter.aux_layers, drafter.target_hidden);
  fit.expect("a vocabulary of", drafter.vocab, target.vocab);
}

}  // namespace ashlar
