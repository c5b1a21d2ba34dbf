// SPDX-License-Identifier: Apache-2.0
#include "model/gguf/gguf_keys.h"

#include <cmath>

#include "base/error.h"
#include "device/weights/weight_source.h"

namespace ashlar {

GgufKeys::GgufKeys(const GgufFile& file, const std::string& architecture)
    : file_(file), fields_(file.metadata(), file.path().string(), "gguf"), prefix_(architecture + ".") {}

bool GgufKeys::has(const char* key) const {
  if (file_.has_array(full(key))) {
    throw Error("gguf", file_.path().string() + ": \"" + full(key) +
                            "\": expected one value for all layers, found an array (layers that differ are not "
                            "supported)");
  }
  return fields_.has(full(key));
}

void GgufKeys::require(const char* key, double value) const {
  if (number(key, value) != value) fields_.fail(full(key), "nothing (the model would compute something else)");
}

void GgufKeys::translate(std::span<const GgufWord> words, Json& config) const {
  for (const auto& [key, word, required] : words) {
    if (has(key) || required) config[word] = raw(key);
  }
}

// What families make of missing keys is their own.
int64_t add_attention_sizes(const GgufKeys& keys, Json& config) {
  if (!keys.has("attention.head_count_kv")) config["num_key_value_heads"] = config["num_attention_heads"];
  const int64_t heads = keys.fields().integer(keys.full("attention.head_count"), 1, 4096);
  const int64_t hidden = keys.fields().integer(keys.full("embedding_length"), 1, 1 << 20);
  if (!keys.has("attention.key_length")) config["head_dim"] = hidden / heads;
  return config["head_dim"].is_number_integer() ? config["head_dim"].get<int64_t>() : 0;
}

double rotary_factor(double rotated, double head_dim) {
  const double factor = rotated / head_dim;
  const bool is_short = std::floor(factor * head_dim) < std::floor(rotated);  // 30 / 44 * 44 is below 30
  return is_short ? std::nextafter(factor, 2) : factor;
}

void check_fixed_words(const GgufKeys& keys) {
  constexpr std::pair<const char*, double> kFixed[] = {
      {"attention.clamp_kqv", 0},           {"attention.max_alibi_bias", 0},
      {"expert_shared_count", 0},           {"rope.scaling.yarn_log_multiplier", 0},
      {"rope.scaling.yarn_attn_factor", 1}, {"rope.scaling.yarn_ext_factor", 1}};
  for (const auto& [key, value] : kFixed) keys.require(key, value);
}

Json gguf_rope_scaling(const GgufKeys& keys, bool long_rope) {
  const std::string type =
      keys.has("rope.scaling.type") ? keys.fields().string(keys.full("rope.scaling.type")) : "none";
  const double old_factor = keys.number("rope.scale_linear", 1);
  if (type == "none" && old_factor != 1) return {{"rope_type", "linear"}, {"factor", old_factor}};
  if (type == "none" || (long_rope && type == "longrope")) return nullptr;
  if (type != "linear" && type != "yarn") {
    keys.fields().fail(keys.full("rope.scaling.type"), "none, linear or yarn");
  }
  Json scaling{{"rope_type", type}, {"factor", keys.raw("rope.scaling.factor")}};
  constexpr std::pair<const char*, const char*> kOptional[] = {
      {"rope.scaling.original_context_length", "original_max_position_embeddings"},
      {"rope.scaling.yarn_beta_fast", "beta_fast"},
      {"rope.scaling.yarn_beta_slow", "beta_slow"}};
  for (const auto& [key, word] : kOptional) {
    if (keys.has(key)) scaling[word] = keys.raw(key);
  }
  return scaling;
}

std::vector<float> read_rope_factors(const StoredTensor& tensor, int64_t count) {
  const auto fail = [&](const std::string& found) {
    throw Error("gguf", tensor.file + ": tensor " + tensor.name + ": expected F32 [" + std::to_string(count) +
                            "] of positive numbers, found " + found);
  };
  if (tensor.dtype != name_of(Scheme::kF32) || tensor.shape != std::vector<int64_t>{count}) fail(tensor.describe());
  std::vector<float> factors(static_cast<size_t>(count));
  decode_rows({tensor.name, Scheme::kF32, tensor.data, 1, count}, 0, 1, factors.data());
  for (const float factor : factors) {
    if (!(factor > 0) || !std::isfinite(factor)) fail(std::to_string(factor));
  }
  return factors;
}

void use_rope_factors(const GgufKeys& keys, const Checkpoint& checkpoint, const char* name, StackConfig& stack) {
  const auto factors = checkpoint.tensors().find(name);
  if (factors == checkpoint.tensors().end()) return;
  for (LayerAttention& layer : stack.layers) {
    if (layer.rope.scaling != RopeConfig::Scaling::kNone) {
      keys.fields().fail(keys.full("rope.scaling.type"), std::string("none, since there is a tensor ") + name);
    }
    layer.rope.scaling = RopeConfig::Scaling::kFactors;
    layer.rope.factors = read_rope_factors(*factors->second, layer.rope.rotary_dim(layer.shape.head_dim) / 2);
  }
}

}  // namespace ashlar
