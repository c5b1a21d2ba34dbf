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
  const char* more;               // settings of its own
  const char* experts = nullptr;  // and of its mixtures, where others have the rest in common; null: there are none
};

constexpr const char* kQwen3 =
    R"({"head_dim": 128, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "max_position_embeddings": 40960,
        "attention_bias": false})";
constexpr const char* kQwen3Moe =
    R"({"head_dim": 128, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "max_position_embeddings": 40960,
        "attention_bias": false, "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768,
        "norm_topk_prob": true})";
constexpr const char* kQwen35 =
    R"({"head_dim": 256, "rms_norm_eps": 1e-6, "max_position_embeddings": 262144, "attention_bias": false,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000000.0, "partial_rotary_factor": 0.25},
        "full_attention_interval": 4, "linear_num_key_heads": 16, "linear_num_value_heads": 32,
        "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4,
        "mtp_num_hidden_layers": 1})";
constexpr const char* kQwen35Experts =
    R"({"num_experts": 256, "num_experts_per_tok": 8, "moe_intermediate_size": 512,
        "shared_expert_intermediate_size": 512})";
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
    {"qwen3.5-4b", "qwen3_5_text", 2560, 32, 16, 4, 9216, 248320, true, kQwen35},
    {"qwen3.5-9b", "qwen3_5_text", 4096, 32, 16, 4, 12288, 248320, false, kQwen35},
    {"qwen3.5-35b-a3b", "qwen3_5_moe_text", 2048, 40, 16, 2, 512, 248320, false, kQwen35, kQwen35Experts},
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
  if (shape.experts != nullptr) config.update(parse_json(shape.experts, shape.name));
  return config;
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

}  // namespace ashlar
