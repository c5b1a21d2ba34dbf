// SPDX-License-Identifier: Apache-2.0
#include "train/export/drafter_folder.h"

#include <charconv>
#include <string>
#include <vector>

#include "base/error.h"
#include "io/durable_file.h"
#include "io/mapped_file.h"
#include "model/drafters/head_config.h"

namespace ashlar {
namespace {

constexpr size_t kMaxConfigBytes = 1 << 20;

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
  const Json layer_types(static_cast<size_t>(config.stack.n_layers), "full_attention");
  Json variant = {{"target_layer_ids", config.aux_layers}, {"mask_token_id", config.mask_id}};
  variant.update(words_of_head(config));
  return {{"architectures", {architecture_of_head(config)}},
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
          {"layer_types", layer_types},
          {"torch_dtype", "bfloat16"}};
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
