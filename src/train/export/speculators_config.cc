// SPDX-License-Identifier: Apache-2.0
#include "train/export/speculators_config.h"

#include "base/error.h"
#include "io/mapped_file.h"
#include "model/drafters/head_config.h"
#include "train/export/drafter_folder.h"

namespace ashlar {
namespace {

Json architectures_of(const ModelConfig& target) {
  const std::filesystem::path path = target.folder / "config.json";
  if (!file_exists(path)) return Json::array();  // a GGUF file
  return read_json_file(path).value("architectures", Json::array());
}

// The transformer alone, as z-lab's form says it.
Json layer_config(const DflashConfig& drafter) {
  const Json all = zlab_config(drafter);
  Json out = {{"tie_word_embeddings", false},
              {"dtype", "bfloat16"},
              {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", all["rope_theta"]}}}};
  for (const char* key : {"model_type", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
                          "num_key_value_heads", "head_dim", "hidden_act", "rms_norm_eps", "rope_theta", "vocab_size",
                          "max_position_embeddings", "attention_bias", "layer_types"}) {
    out[key] = all[key];
  }
  for (const char* key : {"sliding_window", "use_sliding_window"}) {
    if (all.contains(key)) out[key] = all[key];
  }
  return out;
}

}  // namespace

Json speculators_config(const DflashConfig& drafter, const ModelConfig& target) {
  bool looks_ahead = false;  // in layers with a window
  for (const LayerAttention& layer : drafter.stack.layers) {
    if (layer.window > 0) looks_ahead = !layer.causal;
    if (layer.window > 0 || !layer.causal) continue;
    throw Error("train", drafter.folder.string() + ": has causal layers without a window, which the speculators form " +
                             "has no word for; expected --format z-lab");
  }
  std::vector<int32_t> layers;
  for (const int32_t layer : drafter.aux_layers) layers.push_back(layer + 1);
  const Json proposal = {{"proposal_type", "greedy"},
                         {"speculative_tokens", drafter.block_size - 1},
                         {"verifier_accept_k", 1},
                         {"accept_tolerance", 0.0}};
  Json out = {
      {"architectures", {speculators_architecture(drafter)}},
      {"speculators_model_type", drafter.head},
      {"speculators_version", "0.7.0"},
      {"draft_vocab_size", drafter.vocab},
      {"block_size", drafter.block_size},
      {"aux_hidden_state_layer_ids", layers},
      {"mask_token_id", drafter.mask_id},
      {"target_hidden_size", nullptr},
      {"sample_from_anchor", false},
      {"sliding_window_non_causal", looks_ahead},
      {"dtype", "bfloat16"},
      {"transformer_layer_config", layer_config(drafter)},
      {"speculators_config",
       {{"algorithm", drafter.head},
        {"default_proposal_method", "greedy"},
        {"proposal_methods", Json::array({proposal})},
        {"verifier", {{"name_or_path", target.folder.string()}, {"architectures", architectures_of(target)}}}}}};
  out.update(words_of_head(drafter));
  return out;
}

}  // namespace ashlar
