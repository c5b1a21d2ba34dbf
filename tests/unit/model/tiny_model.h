// SPDX-License-Identifier: Apache-2.0
#pragma once
// A checkpoint small enough to be written anew for every way in which one can be wrong.

#include <map>
#include <random>

#include "device/device.h"
#include "io/json.h"
#include "model/model.h"
#include "unit/io/outside_files.h"

namespace ashlar::testing {

/// What config.json of a tiny model of this family says.
inline Json tiny_config(const std::string& family = "qwen3") {
  Json config = parse_json(R"({"hidden_size":8,"intermediate_size":12,"num_hidden_layers":2,"num_attention_heads":2,
    "num_key_value_heads":1,"head_dim":4,"vocab_size":20,"max_position_embeddings":64,"rms_norm_eps":1e-5,
    "rope_theta":1000.0,"hidden_act":"silu","tie_word_embeddings":false,"eos_token_id":3})",
                           "tiny config");
  config["model_type"] = family;
  return config;
}

/// The same in the spelling of LLaDA.
inline Json tiny_llada_config() {
  return parse_json(R"({"model_type":"llada","d_model":8,"mlp_hidden_size":12,"n_layers":2,"n_heads":2,"n_kv_heads":2,
    "vocab_size":20,"embedding_size":20,"max_sequence_length":64,"rms_norm_eps":1e-5,"rope_theta":1000.0,"rope":true,
    "activation_type":"silu","block_type":"llama","layer_norm_type":"rms","weight_tying":false,"alibi":false,
    "include_bias":false,"include_qkv_bias":false,"mask_token_id":7,"eos_token_id":3})",
                    "tiny config");
}

/// `config` with some keys replaced; a null value stays null, the string "<absent>" takes the key away.
inline Json patched(Json config, const std::string& patch) {
  const Json changes = parse_json(patch, "patch");
  for (const auto& [key, value] : changes.items()) {
    if (value == "<absent>") {
      config.erase(key);
    } else {
      config[key] = value;
    }
  }
  return config;
}

using Tensors = std::map<std::string, TensorSpec>;

inline size_t item_bytes(const std::string& dtype) { return dtype == "F32" ? 4 : dtype == "I64" ? 8 : 2; }

inline void add_random(Tensors& tensors, const std::string& name, const std::vector<int64_t>& shape,
                       const std::string& dtype = "F32") {
  TensorSpec tensor = zeros(name, dtype, item_bytes(dtype), shape);
  std::mt19937 random(static_cast<uint32_t>(tensors.size()));
  for (size_t at = 0; at < tensor.bytes.size(); at += item_bytes(dtype)) {
    const float value = static_cast<float>(random() % 1000) / 1000.0F - 0.4F;
    uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof(bits));
    if (dtype == "F32") {
      std::memcpy(tensor.bytes.data() + at, &bits, 4);
    } else {  // bf16 by cutting; as f16 the same bits are another harmless number
      const auto half = static_cast<uint16_t>(bits >> 16);
      std::memcpy(tensor.bytes.data() + at, &half, 2);
    }
  }
  tensors[name] = tensor;
}

/// The tensors of tiny_config("qwen3").
inline Tensors tiny_tensors(const std::string& dtype = "F32") {
  Tensors tensors;
  add_random(tensors, "model.embed_tokens.weight", {20, 8}, dtype);
  add_random(tensors, "model.norm.weight", {8}, dtype);
  add_random(tensors, "lm_head.weight", {20, 8}, dtype);
  for (int layer = 0; layer < 2; ++layer) {
    const std::string base = "model.layers." + std::to_string(layer) + ".";
    add_random(tensors, base + "input_layernorm.weight", {8}, dtype);
    add_random(tensors, base + "post_attention_layernorm.weight", {8}, dtype);
    add_random(tensors, base + "self_attn.q_norm.weight", {4}, dtype);
    add_random(tensors, base + "self_attn.k_norm.weight", {4}, dtype);
    add_random(tensors, base + "self_attn.q_proj.weight", {8, 8}, dtype);
    add_random(tensors, base + "self_attn.k_proj.weight", {4, 8}, dtype);
    add_random(tensors, base + "self_attn.v_proj.weight", {4, 8}, dtype);
    add_random(tensors, base + "self_attn.o_proj.weight", {8, 8}, dtype);
    add_random(tensors, base + "mlp.gate_proj.weight", {12, 8}, dtype);
    add_random(tensors, base + "mlp.up_proj.weight", {12, 8}, dtype);
    add_random(tensors, base + "mlp.down_proj.weight", {8, 12}, dtype);
  }
  return tensors;
}

/// A model folder; `padding`: blanks after the header, which shift all data.
class ModelFolder {
 public:
  explicit ModelFolder(const Json& config = tiny_config(), const Tensors& tensors = tiny_tensors(), int padding = 0) {
    folder_.write("config.json", config.dump());
    std::vector<TensorSpec> list;
    for (const auto& [name, tensor] : tensors) list.push_back(tensor);
    std::string bytes = safetensors(list);
    const size_t end = bytes.find("]}}") + 3;
    bytes.insert(end, static_cast<size_t>(padding), ' ');
    bytes.replace(0, 8, little_endian(end - 8 + padding));
    folder_.write("model.safetensors", bytes);
  }
  const std::filesystem::path& path() const { return folder_.path(); }
  std::string file(const std::string& name) const { return (folder_.path() / name).string(); }
  void write(const std::string& name, const std::string& bytes) const { folder_.write(name, bytes); }

 private:
  TempFolder folder_;
};

}  // namespace ashlar::testing
