// SPDX-License-Identifier: Apache-2.0
#pragma once
// The GGUF file that llama.cpp's converter would make of a drafter's folder: its names, its ids of layers, its order of
// rows. Written from the converter's description, not from src/.

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/bf16.h"
#include "golden/gguf_from_folder.h"

namespace ashlar::testing {

/// Q8_0 of F32 numbers, or of BF16 ones: blocks of 32 with a scale.
inline std::string q8_0(const StoredTensor& tensor) {
  const bool wide = tensor.dtype == "F32";
  const size_t n = tensor.bytes / (wide ? 4 : 2);
  std::vector<float> values(n);
  for (size_t i = 0; i < n; ++i) {
    uint32_t bits = 0;
    std::memcpy(wide ? reinterpret_cast<char*>(&bits) : reinterpret_cast<char*>(&bits) + 2,
                reinterpret_cast<const char*>(tensor.data) + i * (wide ? 4 : 2), wide ? 4 : 2);
    std::memcpy(&values[i], &bits, sizeof bits);
  }
  std::string out;
  for (size_t at = 0; at < n; at += 32) {
    float most = 0;
    for (size_t i = at; i < at + 32; ++i) most = std::max(most, std::abs(values[i]));
    out += GgufWriter::raw(to_f16(most / 127).bits);
    for (size_t i = at; i < at + 32; ++i) {
      out += static_cast<char>(most > 0 ? std::lround(values[i] / (most / 127)) : 0);
    }
  }
  return out;
}

/// "blk.0.attn_conv_base" of "layers.0.attention_conv.base_kernel".
inline std::string gguf_drafter_name(std::string name) {
  if (!name.starts_with("model.")) name = "model." + name;
  const std::pair<const char*, const char*> whole[] = {
      {"model.midlayer.", "model.layers.0."},
      {"model.lm_head.", "output."},
      {"model.fc.", "fc."},
      {"model.hidden_norm.", "enc.output_norm."},
      {"model.input_norm.", "enc.output_norm."},
      {"model.markov_head.", ""},
      {"model.confidence_head.proj.", "conf_proj."},
      {"model.candidate_selector.hidden_projection", "selector_hidden"},
      {"model.candidate_selector.predecessor_codebook", "selector_predecessor"},
      {"model.candidate_selector.successor_codebook", "selector_successor"},
      {"model.d2t", "d2t"}};
  const std::pair<const char*, const char*> parts[] = {{".attention_conv.base_kernel", ".attn_conv_base"},
                                                       {".attention_conv.kernel_projection", ".attn_conv_proj"},
                                                       {".mlp_conv.base_kernel", ".ffn_conv_base"},
                                                       {".mlp_conv.kernel_projection", ".ffn_conv_proj"},
                                                       {".hidden_norm.", ".attn_norm_2."}};
  for (const auto& [from, to] : whole) {
    if (name.starts_with(from)) name = to + name.substr(std::string(from).size());
  }
  for (const auto& [from, to] : parts) {
    if (const size_t at = name.find(from); at != std::string::npos) name.replace(at, std::string(from).size(), to);
  }
  if (name.starts_with("selector_") && !name.ends_with(".weight")) name += ".weight";
  return gguf_name(name);
}

inline void write_drafter_keys(const Json& root, bool eagle, GgufWriter& file) {
  const std::string architecture = eagle ? "eagle3" : "dflash";
  const Json& layers = root.contains("transformer_layer_config") ? root["transformer_layer_config"] : root;
  Json config = layers;
  config["model_type"] = architecture;
  config["eos_token_id"] = 0;
  write_gguf_config(config, file);
  file.texts("tokenizer.ggml.tokens", std::vector<std::string>(config["vocab_size"].get<size_t>(), "t"));
  const auto flag = [&](const Json& from, const char* key) {
    if (from.contains(key) && from[key].is_boolean()) file.boolean(architecture + "." + key, from[key].get<bool>());
  };
  std::vector<int32_t> ids;
  if (eagle) {
    const char* key = "eagle_aux_hidden_state_layer_ids";
    const Json& holder = root.contains(key) ? root : root["eagle_config"];
    for (const Json& id : holder[key]) ids.push_back(id.get<int32_t>() + (root.contains(key) ? 0 : 1));
    file.integers("eagle3.target_layers", ids);
    file.number("eagle3.target_hidden_size", config["hidden_size"].get<uint32_t>());
    flag(root, "norm_before_residual");
    flag(root, "norm_before_fc");
    return;
  }
  const Json own = root.value("dflash_config", root);
  for (const Json& id : own["target_layer_ids"]) ids.push_back(id.get<int32_t>() + 1);
  file.integers("dflash.target_layers", ids);
  file.number("tokenizer.ggml.mask_token_id", own["mask_token_id"].get<uint32_t>());
  file.number("dflash.block_size", own.value("block_size", root.value("block_size", 16U)));
  for (const char* key : {"conv_kernel_size", "conv_group_size", "selector_rank", "selector_top_k"}) {
    if (own.contains(key)) file.number(std::string("dflash.") + key, own[key].get<uint32_t>());
  }
  const std::pair<const char*, const char*> scales[] = {{"input_embedding_scale", "embedding_scale"},
                                                        {"output_multiplier", "logit_scale"},
                                                        {"final_logit_softcapping", "final_logit_softcapping"}};
  for (const auto& [word, key] : scales) {
    if (own.contains(word)) file.number(std::string("dflash.") + key, own[word].get<float>());
  }
  if (root.contains("markov_rank")) file.boolean("dflash.sample_from_anchor", root.value("sample_from_anchor", true));
  if (root.contains("is_causal")) file.boolean("dflash.attention.causal", root["is_causal"].get<bool>());
  if (!root.value("use_sliding_window", false)) return;
  file.number("dflash.attention.sliding_window", root["sliding_window"].get<uint32_t>());
  std::string pattern = GgufWriter::raw(uint32_t{7}) + GgufWriter::raw(uint64_t{root["layer_types"].size()});
  for (const Json& type : root["layer_types"]) pattern += GgufWriter::raw(uint8_t{type == "sliding_attention"});
  file.key("dflash.attention.sliding_window_pattern", 9, pattern);
}

/// `quantised`: matrices of products in Q8_0.
inline GgufWriter gguf_from_drafter(const std::filesystem::path& folder, bool quantised = false) {
  const Json root = read_json_file(folder / "config.json");
  const Checkpoint checkpoint(folder);
  const bool eagle = root.dump().find("Eagle3") != std::string::npos;
  const Json& layers = root.contains("transformer_layer_config") ? root["transformer_layer_config"] : root;
  GgufWriter file;
  write_drafter_keys(root, eagle, file);
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    if (name == "t2d") continue;
    const std::string as = gguf_drafter_name(name);
    std::string bytes = bytes_of_tensor(*tensor);
    if (tensor->dtype == "I64") {
      for (size_t i = 0; i * 8 < bytes.size(); ++i) {
        int64_t value = 0;
        std::memcpy(&value, bytes.data() + i * 8, 8);
        bytes.replace(i * 8, 8, GgufWriter::raw(value + static_cast<int64_t>(i)));
      }
      file.tensor(as, reversed(tensor->shape), 27, bytes);
      continue;
    }
    for (const char* which : {"attn_q.", "attn_k."}) {
      if (!eagle || as.find(which) == std::string::npos) continue;
      const char* heads = which[5] == 'q' ? "num_attention_heads" : "num_key_value_heads";
      bytes = interleaved(bytes, layers[heads].get<int64_t>(), bytes.size() / static_cast<size_t>(tensor->shape[0]));
    }
    const bool blocks = quantised && tensor->shape.size() == 2 && tensor->shape[1] % 32 == 0;
    file.tensor(as, reversed(tensor->shape), blocks ? 8 : gguf_type_of(tensor->dtype), blocks ? q8_0(*tensor) : bytes);
  }
  return file;
}

}  // namespace ashlar::testing
