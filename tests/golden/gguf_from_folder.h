// SPDX-License-Identifier: Apache-2.0
#pragma once
// The GGUF file that llama.cpp's converter would make of a Hugging Face folder: its names, its order of rows. Written
// from the format's description, not from src/.

#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "gguf_writer.h"
#include "golden/gguf_converter.h"
#include "golden/gguf_gpt_oss.h"
#include "golden/golden_data.h"
#include "io/weights/checkpoint.h"

namespace ashlar::testing {

/// Rows of one matrix or vector, each `bytes` long, in llama.cpp's order: neighbours are what rotates together.
inline std::string interleaved(const std::string& rows, int64_t heads, size_t bytes) {
  const size_t n = rows.size() / bytes;
  const size_t half = n / static_cast<size_t>(heads) / 2;
  std::string out;
  for (size_t head = 0; head < static_cast<size_t>(heads); ++head) {
    for (size_t i = 0; i < half; ++i) {
      for (const size_t part : {size_t{0}, half}) out += rows.substr((head * 2 * half + part + i) * bytes, bytes);
    }
  }
  return out;
}

inline std::string bytes_of_tensor(const StoredTensor& tensor) {
  return {reinterpret_cast<const char*>(tensor.data), tensor.bytes};
}

/// What some families call parts that others have under the same names, or not at all.
inline std::string gguf_name_of(const std::string& family, std::string name) {
  struct Part {
    const char *family, *from, *to;
  };
  const Part parts[] = {{"glm4", "post_attention_layernorm", "ffn_norm"},
                        {"glm4", "post_self_attn_layernorm", "post_attention_norm"},
                        {"glm4", "post_mlp_layernorm", "post_ffw_norm"},
                        {"glm4", "mlp.gate_up_proj", "ffn_up"},
                        {"phi3", "self_attn.qkv_proj", "attn_qkv"},
                        {"phi3", "mlp.gate_up_proj", "ffn_up"},
                        {"gpt_oss", "post_attention_layernorm", "post_attention_norm"},
                        {"gpt_oss", "mlp.router", "ffn_gate_inp"},
                        {"gpt_oss", "self_attn.sinks", "attn_sinks.weight"}};
  for (const auto& [of, from, to] : parts) {
    const size_t at = of == family ? name.find(from) : std::string::npos;
    if (at != std::string::npos) return name.replace(at, std::string(from).size(), to);
  }
  return name;
}

/// "blk.3.attn_q.weight" of "model.layers.3.self_attn.q_proj.weight".
inline std::string gguf_name(std::string name, bool output_norms = false) {
  const std::pair<const char*, const char*> parts[] = {{"model.embed_tokens", "token_embd"},
                                                       {"lm_head", "output"},
                                                       {"model.layers", "blk"},
                                                       {"model.norm", "output_norm"},
                                                       {"self_attn.q_proj", "attn_q"},
                                                       {"self_attn.k_proj", "attn_k"},
                                                       {"self_attn.v_proj", "attn_v"},
                                                       {"self_attn.o_proj", "attn_output"},
                                                       {"self_attn.q_norm", "attn_q_norm"},
                                                       {"self_attn.k_norm", "attn_k_norm"},
                                                       {"input_layernorm", "attn_norm"},
                                                       {"post_attention_layernorm", "ffn_norm"},
                                                       {"mlp.gate_proj", "ffn_gate"},
                                                       {"mlp.up_proj", "ffn_up"},
                                                       {"mlp.down_proj", "ffn_down"},
                                                       {"mlp.gate.", "ffn_gate_inp."}};
  const std::pair<const char*, const char*> norms[] = {{"post_attention_layernorm", "post_attention_norm"},
                                                       {"pre_feedforward_layernorm", "ffn_norm"},
                                                       {"post_feedforward_layernorm", "post_ffw_norm"}};
  for (const auto& [from, to] : norms) {
    const size_t at = output_norms ? name.find(from) : std::string::npos;
    if (at != std::string::npos) name.replace(at, std::string(from).size(), to);
  }
  for (const auto& [from, to] : parts) {
    if (const size_t at = name.find(from); at != std::string::npos) name.replace(at, std::string(from).size(), to);
  }
  return name;
}

/// Keys and values of the architecture, out of config.json.
inline void write_gguf_config(const Json& config, GgufWriter& file) {
  const std::string family = config["model_type"];
  const std::string name = family == "qwen3_moe"     ? "qwen3moe"
                           : family == "gemma3_text" ? "gemma3"
                           : family == "gpt_oss"     ? "gpt-oss"
                                                     : family;
  file.text("general.architecture", name);
  const auto number = [&](const char* key, const char* word) {
    if (config.contains(word) && config[word].is_number_integer()) {
      file.number(name + "." + key, config[word].get<uint32_t>());
    }
  };
  number("context_length", "max_position_embeddings");
  number("embedding_length", "hidden_size");
  number("feed_forward_length", "intermediate_size");
  number("block_count", "num_hidden_layers");
  number("attention.head_count", "num_attention_heads");
  number("attention.head_count_kv", "num_key_value_heads");
  number("attention.key_length", "head_dim");
  number("attention.value_length", "head_dim");
  const auto head =
      config.value("head_dim", config["hidden_size"].get<double>() / config["num_attention_heads"].get<double>());
  const double rotated = head * config.value("partial_rotary_factor", 1.0);
  if (rotated != head || config.contains("head_dim")) {
    file.number(name + ".rope.dimension_count", static_cast<uint32_t>(rotated));
  }
  if (family == "phi3" || family == "gpt_oss") number("attention.sliding_window", "sliding_window");
  if (family == "gpt_oss") number("expert_feed_forward_length", "intermediate_size");
  if (family == "gemma3_text") {
    number("attention.sliding_window", "sliding_window");
    number("attention.sliding_window_pattern", "sliding_window_pattern");
    file.number("gemma3.rope.freq_base_swa", config["rope_local_base_freq"].get<float>());
  }
  if (family == "granite") {
    const std::pair<const char*, const char*> multipliers[] = {{"attention.scale", "attention_multiplier"},
                                                               {"embedding_scale", "embedding_multiplier"},
                                                               {"residual_scale", "residual_multiplier"},
                                                               {"logit_scale", "logits_scaling"}};
    for (const auto& [key, word] : multipliers) file.number(name + "." + key, config[word].get<float>());
  }
  number("expert_count", "num_local_experts");
  number("expert_count", "num_experts");
  number("expert_used_count", "num_experts_per_tok");
  number("expert_feed_forward_length", "moe_intermediate_size");
  number("tokenizer.ggml.bos_token_id", "no such word");
  file.number("tokenizer.ggml.eos_token_id", config["eos_token_id"].get<uint32_t>());
  file.number(name + ".attention.layer_norm_rms_epsilon", config.value("rms_norm_eps", 1e-5F));
  const Json parameters = config.value("rope_parameters", Json::object());
  file.number(name + ".rope.freq_base", config.value("rope_theta", parameters.value("rope_theta", 10000.0F)));
  const Json scaling = config.value("rope_scaling", Json());
  if (!scaling.is_object()) return;
  const std::string type = scaling.contains("type") ? scaling["type"] : scaling["rope_type"];
  if (type == "llama3") return;  // a tensor instead
  if (type == "longrope") {      // tensors, too
    const double longest = config["max_position_embeddings"], trained = config["original_max_position_embeddings"];
    file.text(name + ".rope.scaling.type", type);
    file.number(name + ".rope.scaling.original_context_length", static_cast<uint32_t>(trained));
    file.number(name + ".rope.scaling.attn_factor",
                static_cast<float>(std::sqrt(1 + std::log(longest / trained) / std::log(trained))));
    return;
  }
  file.text(name + ".rope.scaling.type", type);
  file.number(name + ".rope.scaling.factor", scaling["factor"].get<float>());
  if (scaling.contains("original_max_position_embeddings")) {
    file.number(name + ".rope.scaling.original_context_length",
                scaling["original_max_position_embeddings"].get<uint32_t>());
  }
}

/// What Llama 3's scaling divides each frequency by, as the converter computes it.
inline std::vector<float> llama3_factors(const Json& config) {
  const Json& scaling = config["rope_scaling"];
  const auto value = [&](const char* key) { return scaling[key].get<double>(); };
  const int heads = config["num_attention_heads"];
  const int size = config["hidden_size"].get<int>() / heads;
  const double original = value("original_max_position_embeddings");
  const double low = original / value("low_freq_factor"), high = original / value("high_freq_factor");
  std::vector<float> factors;
  for (int i = 0; i < size / 2; ++i) {
    const double length = 2 * std::numbers::pi * std::pow(config["rope_theta"].get<double>(), 2.0 * i / size);
    double factor = length < high ? 1 : value("factor");
    if (length >= high && length <= low) {
      const double smooth =
          (original / length - value("low_freq_factor")) / (value("high_freq_factor") - value("low_freq_factor"));
      factor = 1 / ((1 - smooth) / value("factor") + smooth);
    }
    factors.push_back(static_cast<float>(factor));
  }
  return factors;
}

inline uint32_t gguf_type_of(const std::string& dtype) { return dtype == "F32" ? 0 : dtype == "F16" ? 1 : 30; }

inline std::vector<uint64_t> reversed(const std::vector<int64_t>& shape) { return {shape.rbegin(), shape.rend()}; }

/// The tensors of a folder, experts of a kind and layer in one.
inline void write_gguf_tensors(const Json& config, const Checkpoint& checkpoint, GgufWriter& file) {
  const std::string family = config["model_type"];
  const bool llama = family == "llama" || family == "smollm3" || family == "granite", gemma = family == "gemma3_text";
  const int64_t experts = config.value("num_local_experts", config.value("num_experts", 0));
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    std::string bytes = bytes_of_tensor(*tensor);
    if (family == "gpt_oss" && name.find(".mlp.experts.") != std::string::npos) continue;
    std::string as = gguf_name(gguf_name_of(family, name), gemma || family == "olmo2");
    for (size_t at = 0; gemma && name.ends_with("norm.weight") && at < bytes.size(); at += sizeof(float)) {
      float value;
      std::memcpy(&value, bytes.data() + at, sizeof value);
      bytes.replace(at, sizeof value, GgufWriter::raw(value + 1));
    }
    std::vector<uint64_t> dimensions = reversed(tensor->shape);
    if (const size_t at = as.find("mlp.experts."); at != std::string::npos) {
      if (as.compare(at, 14, "mlp.experts.0.") != 0) continue;
      const std::string kind = as.substr(at + 14, as.find("_proj") - at - 14);
      for (int64_t e = 1; e < experts; ++e) {
        std::string other = name;
        other.replace(other.find(".experts.0."), 11, ".experts." + std::to_string(e) + ".");
        bytes += bytes_of_tensor(*checkpoint.tensors().at(other));
      }
      as = as.substr(0, at) + "ffn_" + kind + "_exps.weight";
      dimensions.push_back(static_cast<uint64_t>(experts));
    }
    for (const char* which : {"attn_q.", "attn_k."}) {
      if (!llama || as.find(which) == std::string::npos) continue;
      const char* heads = which[5] == 'q' ? "num_attention_heads" : "num_key_value_heads";
      bytes = interleaved(bytes, config[heads].get<int64_t>(), bytes.size() / static_cast<size_t>(tensor->shape[0]));
    }
    file.tensor(as, dimensions, gguf_type_of(tensor->dtype), bytes);
  }
  if (family == "gpt_oss") write_gpt_oss_experts(checkpoint.folder(), file);
  const Json scaling = config.value("rope_scaling", Json());
  for (const char* kind : {"short", "long"}) {
    if (!scaling.is_object() || !scaling.contains(std::string(kind) + "_factor")) continue;
    std::string bytes;
    for (const Json& factor : scaling[std::string(kind) + "_factor"]) bytes += GgufWriter::raw(factor.get<float>());
    file.tensor(std::string("rope_factors_") + kind + ".weight", {bytes.size() / sizeof(float)}, 0, bytes);
  }
  if (!scaling.is_object() || scaling.value("rope_type", "") != "llama3") return;
  std::string bytes;
  for (const float factor : llama3_factors(config)) bytes += GgufWriter::raw(factor);
  file.tensor("rope_freqs.weight", {bytes.size() / sizeof(float)}, 0, bytes);
}

inline GgufWriter gguf_from_folder(const std::filesystem::path& folder) {
  const Json config = read_json_file(folder / "config.json");
  if (GgufConverterKeys::converts(config["model_type"])) return GgufConverter(folder).file();
  GgufWriter file;
  write_gguf_config(config, file);
  write_gguf_tensors(config, Checkpoint(folder), file);
  return file;
}

}  // namespace ashlar::testing
