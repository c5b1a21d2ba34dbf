// SPDX-License-Identifier: Apache-2.0
#include "measure/synth/shapes.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "io/mapped_file.h"

namespace ashlar {
namespace {

struct Shape {
  const char* name;
  const char* family;
  int32_t hidden, layers, heads, kv_heads, intermediate, vocab;
  bool tied;
  const char* more;  // settings of its own
};

constexpr const char* kQwen3 =
    R"({"head_dim": 128, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "max_position_embeddings": 40960,
        "attention_bias": false})";
constexpr const char* kQwen3Moe =
    R"({"head_dim": 128, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "max_position_embeddings": 40960,
        "attention_bias": false, "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768,
        "norm_topk_prob": true})";
constexpr const char* kLlama3 =
    R"({"rms_norm_eps": 1e-5, "rope_theta": 500000.0, "max_position_embeddings": 131072, "attention_bias": false,
        "mlp_bias": false})";

constexpr Shape kShapes[] = {
    {"qwen3-0.6b", "qwen3", 1024, 28, 16, 8, 3072, 151936, true, kQwen3},
    {"qwen3-1.7b", "qwen3", 2048, 28, 16, 8, 6144, 151936, true, kQwen3},
    {"qwen3-4b", "qwen3", 2560, 36, 32, 8, 9728, 151936, true, kQwen3},
    {"qwen3-8b", "qwen3", 4096, 36, 32, 8, 12288, 151936, false, kQwen3},
    {"qwen3-14b", "qwen3", 5120, 40, 40, 8, 17408, 151936, false, kQwen3},
    {"qwen3-32b", "qwen3", 5120, 64, 64, 8, 25600, 151936, false, kQwen3},
    {"qwen3-30b-a3b", "qwen3_moe", 2048, 48, 32, 4, 6144, 151936, false, kQwen3Moe},
    {"llama-3.2-1b", "llama", 2048, 16, 32, 8, 8192, 128256, true, kLlama3},
    {"llama-3.1-8b", "llama", 4096, 32, 32, 8, 14336, 128256, false, kLlama3},
};

Json config_of(const Shape& shape) {
  Json config = {{"model_type", shape.family},
                 {"hidden_size", shape.hidden},
                 {"intermediate_size", shape.intermediate},
                 {"num_hidden_layers", shape.layers},
                 {"num_attention_heads", shape.heads},
                 {"num_key_value_heads", shape.kv_heads},
                 {"hidden_act", "silu"},
                 {"vocab_size", shape.vocab},
                 {"tie_word_embeddings", shape.tied}};
  config.update(parse_json(shape.more, shape.name));
  return config;
}

// Evenly over the model's layers, as in published drafters: 1, 9, 17, 25 and 33 of 36.
std::vector<int32_t> read_layers(int32_t layers) {
  constexpr int32_t kStates = 5;
  std::vector<int32_t> out;
  for (int32_t i = 0; i < std::min(kStates, layers); ++i) {
    out.push_back(layers < 2 * kStates ? i : 1 + i * (layers - 4) / (kStates - 1));
  }
  return out;
}

}  // namespace

Json shape_config(const std::string& shape) {
  const auto* const known = std::ranges::find(kShapes, shape, &Shape::name);
  if (known != std::end(kShapes)) return config_of(*known);
  if (!file_exists(shape)) {
    throw Error("synth", "unknown shape \"" + for_message(shape) + "\"; expected one of " + shape_names() +
                             ", or the path of a config.json or of a folder with one");
  }
  const std::filesystem::path path = shape;
  Json config = read_json_file(std::filesystem::is_directory(path) ? path / "config.json" : path);
  if (!config.is_object()) throw Error("synth", shape + ": expected an object, as in a config.json");
  config.erase("quantization_config");
  return config;
}

std::string shape_names() {
  std::string names;
  for (const Shape& shape : kShapes) names += (names.empty() ? "" : ", ") + std::string(shape.name);
  return names;
}

Json dflash_config_for(const ModelConfig& target, int32_t layers) {
  constexpr int32_t kBlock = 16;
  const StackConfig& stack = target.stack;
  // Where the model has other layers besides, those with attention; in any case heads that share keys and values.
  const auto attends = [&](const LayerAttention& layer) { return layer.shape.n_heads > 0; };
  const auto found = std::ranges::find_if(stack.layers, attends);
  if (found == stack.layers.end()) throw Error("synth", "a model without attention has no drafter");
  const int32_t experts = stack.moe ? stack.moe->routing.top_k * stack.moe->intermediate : 0;
  return {{"architectures", {"DFlashDraftModel"}},
          {"model_type", "qwen3"},
          {"block_size", kBlock},
          {"num_target_layers", stack.n_layers},
          {"dflash_config", {{"target_layer_ids", read_layers(stack.n_layers)}, {"mask_token_id", 3}}},
          {"hidden_size", stack.hidden},
          {"intermediate_size", stack.intermediate > 0 ? stack.intermediate : experts},
          {"num_hidden_layers", layers},
          {"num_attention_heads", found->shape.n_heads},
          {"num_key_value_heads", found->shape.n_kv_heads},
          {"head_dim", found->shape.head_dim},
          {"hidden_act", "silu"},
          {"rms_norm_eps", 1e-6},
          {"rope_theta", 1000000.0},
          {"vocab_size", target.vocab},
          {"max_position_embeddings", target.max_positions},
          {"attention_bias", false},
          {"tie_word_embeddings", target.tied_head}};
}

}  // namespace ashlar
