// SPDX-License-Identifier: Apache-2.0
#include "train/export/drafter_folder.h"

#include <charconv>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "io/durable_file.h"
#include "io/mapped_file.h"
#include "model/drafters/head_config.h"

namespace ashlar {
namespace {

constexpr size_t kMaxConfigBytes = 1 << 20;

// What each layer sees, as read_dflash_config() reads it: one window for those that have one, and causality of all, or
// of those with a window where nothing is said.
void add_sights(const std::vector<LayerAttention>& layers, Json& out) {
  Json types = Json::array();
  size_t sliding = 0;
  size_t causal = 0;
  for (const LayerAttention& layer : layers) {
    types.push_back(layer.window > 0 ? "sliding_attention" : "full_attention");
    causal += layer.causal ? 1 : 0;
    if (layer.window == 0) continue;
    ASHLAR_CHECK(sliding == 0 || out["sliding_window"] == layer.window);
    ++sliding;
    out["sliding_window"] = layer.window;
    out["use_sliding_window"] = true;
  }
  ASHLAR_CHECK(causal == 0 || causal == layers.size() || causal == sliding);
  out["layer_types"] = types;
  if (causal == 0 && sliding > 0) out["is_causal"] = false;
  if (causal > sliding) out["is_causal"] = true;
}

}  // namespace

double shortest(float value) {
  char text[32];
  const char* const end = std::to_chars(text, text + sizeof text, value).ptr;
  double out = 0;
  std::from_chars(text, end, out);
  return out;
}

Json zlab_config(const DflashConfig& config) {
  const LayerAttention& layer = config.stack.layers.front();
  Json variant = {{"target_layer_ids", config.aux_layers}, {"mask_token_id", config.mask_id}};
  variant.update(words_of_head(config));
  Json out = {{"architectures", {architecture_of_head(config)}},
              {"model_type", "qwen3"},
              {"block_size", config.block_size},
              {"num_target_layers", config.target_layers},
              {"dflash_config", variant},
              {"hidden_size", config.stack.hidden},
              {"intermediate_size", config.stack.intermediate},
              {"num_hidden_layers", config.stack.n_layers},
              {"num_attention_heads", layer.shape.n_heads},
              {"num_key_value_heads", layer.shape.n_kv_heads},
              {"head_dim", layer.shape.head_dim},
              {"hidden_act", "silu"},
              {"rms_norm_eps", shortest(config.stack.norm_eps)},
              {"rope_theta", layer.rope.theta},
              {"vocab_size", config.vocab},
              {"max_position_embeddings", config.max_positions},
              {"attention_bias", false},
              {"tie_word_embeddings", true},
              {"torch_dtype", "bfloat16"}};
  add_sights(config.stack.layers, out);
  return out;
}

void write_drafter_folder(const std::filesystem::path& folder, const Json& config,
                          std::span<const TensorToWrite> tensors) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) throw Error("file", folder.string() + ": cannot be made: " + failed.message());
  const std::string text = config.dump(2) + "\n";
  const std::filesystem::path path = folder / "config.json";
  if (!file_exists(path) || read_text_file(path, kMaxConfigBytes) != text) write_durably(path, text);
  std::vector<TensorToWrite> rounded(tensors.begin(), tensors.end());
  for (TensorToWrite& tensor : rounded) {
    if (tensor.type == TensorToWrite::Type::kF32) tensor.type = TensorToWrite::Type::kBF16;
  }
  write_safetensors(folder / "model.safetensors", rounded, {{"format", "pt"}});
}

}  // namespace ashlar
