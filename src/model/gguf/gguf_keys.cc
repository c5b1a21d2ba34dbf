// SPDX-License-Identifier: Apache-2.0
#include "model/gguf/gguf_keys.h"

#include <cmath>

#include "base/error.h"
#include "device/weights/weight_source.h"
#include "model/families/family.h"

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

void GgufKeys::refuse_list(const char* key, const std::string& expected) const {
  throw Error("gguf", file_.path().string() + ": \"" + full(key) + "\": expected " + expected);
}

void GgufKeys::check_layers(const char* key, size_t found) const {
  const auto layers = static_cast<size_t>(fields_.integer(full("block_count"), 1, 1000));
  if (found == layers) return;
  refuse_list(key, std::to_string(layers) + " values, one for each layer, found " + std::to_string(found));
}

std::vector<int64_t> GgufKeys::for_layers(const char* key, int64_t low, int64_t high,
                                          std::optional<int64_t> missing) const {
  if (!has_list(key)) {
    const auto layers = static_cast<size_t>(fields_.integer(full("block_count"), 1, 1000));
    const bool lacks = missing && !fields_.has(full(key));
    return std::vector<int64_t>(layers, lacks ? *missing : fields_.integer(full(key), low, high));
  }
  std::vector<int64_t> values = file_.integers(full(key));
  check_layers(key, values.size());
  for (const int64_t value : values) {
    if (value >= low && value <= high) continue;
    refuse_list(key, "numbers from " + std::to_string(low) + " to " + std::to_string(high) + ", found " +
                         std::to_string(value));
  }
  return values;
}

std::vector<bool> GgufKeys::flags_for_layers(const char* key) const {
  std::vector<bool> flags = file_.booleans(full(key));
  check_layers(key, flags.size());
  return flags;
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
  constexpr const char* kKvHeads = "attention.head_count_kv";
  if (!keys.has_list(kKvHeads) && !keys.has(kKvHeads)) config["num_key_value_heads"] = config["num_attention_heads"];
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

void check_fixed_words(const GgufKeys& keys, bool grows_queries) {
  for (const char* key : {"rope.scaling.yarn_log_multiplier", "attention.temperature_scale"}) {
    if (!grows_queries) keys.require(key, 0);
  }
  constexpr std::pair<const char*, double> kFixed[] = {
      {"attention.clamp_kqv", 0}, {"attention.max_alibi_bias", 0}, {"rope.scaling.yarn_ext_factor", 1}};
  for (const auto& [key, value] : kFixed) keys.require(key, value);
}

Json gguf_window_types(const GgufKeys& keys, int64_t layers, int64_t usual) {
  constexpr const char* kPattern = "attention.sliding_window_pattern";
  if (!keys.has_list(kPattern)) {
    return windows_but_each(keys.fields().integer(keys.full(kPattern), 1, 1000, usual), layers);
  }
  const std::vector<bool> windows = keys.flags_for_layers(kPattern);
  Json types = Json::array();
  for (int64_t i = 0; i < layers; ++i) {
    types.push_back(windows[static_cast<size_t>(i)] ? "sliding_attention" : "full_attention");
  }
  return types;
}

Json gguf_rope_scaling(const GgufKeys& keys, bool long_rope) {
  const std::string type =
      keys.has("rope.scaling.type") ? keys.fields().string(keys.full("rope.scaling.type")) : "none";
  constexpr const char* kAttention = "rope.scaling.yarn_attn_factor";
  if (type == "none") keys.require(kAttention, 1);
  const double old_factor = keys.number("rope.scale_linear", 1);
  if (type == "none" && old_factor != 1) return {{"rope_type", "linear"}, {"factor", old_factor}};
  if (type == "none" || (long_rope && type == "longrope")) return nullptr;
  if (type != "linear" && type != "yarn") {
    keys.fields().fail(keys.full("rope.scaling.type"), "none, linear or yarn");
  }
  if (type == "linear") keys.require(kAttention, 1);
  Json scaling{{"rope_type", type}, {"factor", keys.raw("rope.scaling.factor")}};
  constexpr std::pair<const char*, const char*> kOptional[] = {
      {"rope.scaling.original_context_length", "original_max_position_embeddings"},
      {"rope.scaling.yarn_beta_fast", "beta_fast"},
      {"rope.scaling.yarn_beta_slow", "beta_slow"}};
  for (const auto& [key, word] : kOptional) {
    if (keys.has(key)) scaling[word] = keys.raw(key);
  }
  // What converters write of config.json's attention_factor; 1 stands for what follows from the other values.
  if (keys.number(kAttention, 1) != 1) scaling["attention_factor"] = keys.raw(kAttention);
  return scaling;
}

bool has_layer_weight(const Checkpoint& checkpoint, int64_t layer, const char* name) {
  std::string full = "blk." + std::to_string(layer);
  full.append(".").append(name).append(".weight");
  return checkpoint.tensors().contains(full);
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
