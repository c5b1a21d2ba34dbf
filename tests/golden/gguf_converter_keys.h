// SPDX-License-Identifier: Apache-2.0
#pragma once
// What llama.cpp's converter writes of the config.json of families of gguf_converter.h.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "gguf_writer.h"
#include "io/json.h"

namespace ashlar::testing {

class GgufConverterKeys {
 public:
  static bool converts(const std::string& family) { return architecture_of(family) != nullptr; }

  /// Of a config.json, in which the text model may be a part.
  explicit GgufConverterKeys(const Json& root)
      : config_(root.value("text_config", root)), name_(architecture_of(config_["model_type"])) {
    if (root.contains("eos_token_id")) config_["eos_token_id"] = root["eos_token_id"];
    const std::pair<const char*, const char*> words[] = {{"hidden_size", "d_model"},
                                                         {"intermediate_size", "mlp_hidden_size"},
                                                         {"num_hidden_layers", "n_layers"},
                                                         {"num_attention_heads", "n_heads"},
                                                         {"num_key_value_heads", "n_kv_heads"},
                                                         {"max_position_embeddings", "max_sequence_length"}};
    for (const auto& [to, from] : words) {
      if (config_.contains(from)) config_[to] = config_[from];
    }
    layers_ = config_["num_hidden_layers"];
    drafting_ = config_.value("num_nextn_predict_layers", config_.value("mtp_num_hidden_layers", 0));
  }

  const Json& config() const { return config_; }
  const std::string& architecture() const { return name_; }
  int64_t layers() const { return layers_; }

  /// Some config.json do not say that there is one.
  void need_drafting_layer() { drafting_ = std::max<int64_t>(drafting_, 1); }

  void write(GgufWriter& file) {
    file_ = &file;
    file_->text("general.architecture", name_);
    number("block_count", layers_ + drafting_);
    word("context_length", "max_position_embeddings");
    word("embedding_length", "hidden_size");
    word("feed_forward_length", "intermediate_size");
    word("attention.head_count", "num_attention_heads");
    word("attention.key_length", "head_dim");
    word("attention.value_length", "head_dim");
    word("expert_count", "num_experts");
    word("expert_count", "n_routed_experts");
    word("expert_used_count", "num_experts_per_tok");
    word("expert_feed_forward_length", "moe_intermediate_size");
    real("attention.layer_norm_rms_epsilon", config_.value("norm_eps", config_.value("rms_norm_eps", Json(1e-6))));
    const Json& stops = config_["eos_token_id"];
    file_->number("tokenizer.ggml.eos_token_id", (stops.is_array() ? stops[0] : stops).get<uint32_t>());
    if (stops.is_array()) file_->number("tokenizer.ggml.eot_token_id", stops[1].get<uint32_t>());
    if (drafting_ > 0) number("nextn_predict_layers", drafting_);
    if (name_ == "gemma4") return write_gemma4_keys();
    write_rope_keys();
    if (name_.starts_with("lfm2")) return write_lfm2_keys();
    word("attention.head_count_kv", "num_key_value_heads");
    if (name_.starts_with("qwen3")) write_qwen_keys();
    if (config_.contains("mask_token_id")) {
      file_->boolean(key("attention.causal"), false);
      file_->number("tokenizer.ggml.mask_token_id", config_["mask_token_id"].get<uint32_t>());
    }
    if (name_ == "glm4moe") write_glm_keys();
    if (name_ != "olmo2") return;
    word("attention.sliding_window", "sliding_window");
    flags("attention.sliding_window_pattern", layers_of("sliding_attention"));
  }

  // 1 for what turns, and what makes frequencies nothing.
  void write_frequencies(GgufWriter& file) const {
    const int64_t half = rope_["head_dim"].get<int64_t>() / 2;
    const auto turning = static_cast<int64_t>(rope_.value("partial_rotary_factor", 0.25) * static_cast<double>(half));
    std::string bytes;
    for (int64_t i = 0; i < half; ++i) bytes += GgufWriter::raw(i < turning ? 1.0F : 1e30F);
    file.tensor("rope_freqs.weight", {static_cast<uint64_t>(half)}, 0, bytes);
  }

 private:
  static const char* architecture_of(const std::string& family) {
    constexpr std::pair<const char*, const char*> kNames[] = {{"Dream", "dream"},
                                                              {"llada", "llada"},
                                                              {"qwen3_5_text", "qwen35"},
                                                              {"qwen3_5", "qwen35"},
                                                              {"qwen3_5_moe_text", "qwen35moe"},
                                                              {"qwen3_next", "qwen3next"},
                                                              {"glm4_moe", "glm4moe"},
                                                              {"olmo3", "olmo2"},
                                                              {"ministral3", "mistral3"},
                                                              {"gemma4_text", "gemma4"},
                                                              {"gemma4", "gemma4"},
                                                              {"lfm2", "lfm2"},
                                                              {"lfm2_moe", "lfm2moe"}};
    for (const auto& [known, name] : kNames) {
      if (family == known) return name;
    }
    return nullptr;
  }

  std::string key(const char* name) const { return name_ + "." + name; }
  void number(const char* name, int64_t value) { file_->number(key(name), static_cast<uint32_t>(value)); }
  void word(const char* name, const char* from) {
    if (config_.contains(from) && config_[from].is_number_integer()) number(name, config_[from].get<int64_t>());
  }
  void real(const char* name, const Json& value) { file_->number(key(name), value.get<float>()); }
  void flags(const char* name, const std::vector<bool>& values) {
    std::string bytes = GgufWriter::raw(uint32_t{7}) + GgufWriter::raw(uint64_t{values.size()});
    for (const bool value : values) bytes += static_cast<char>(value);
    file_->key(key(name), 9, bytes);
  }

  /// Of each layer whether it is one of `type`.
  std::vector<bool> layers_of(const std::string& type, int64_t more = 0) const {
    std::vector<bool> are;
    for (int64_t i = 0; i < layers_; ++i) {
      if (config_.contains("layer_types")) {
        are.push_back(config_["layer_types"][static_cast<size_t>(i)] == type);
      } else if (type == "conv") {
        const Json& others = config_["full_attn_idxs"];
        are.push_back(std::find(others.begin(), others.end(), i) == others.end());
      } else {
        are.push_back((i + 1) % (type == "linear_attention" || name_ == "olmo2" ? 4 : 6) != 0);
      }
    }
    if (type == "sliding_attention" && name_ == "gemma4") are.back() = false;  // as its class has it
    are.resize(are.size() + static_cast<size_t>(more), false);
    return are;
  }

  void write_rope_keys() {
    const Json parameters = config_.value("rope_parameters", Json::object());
    const Json theta = parameters.value("rope_theta", config_.value("rope_theta", Json(10000.0)));
    real("rope.freq_base", theta);
    if (name_ == "olmo2") real("rope.freq_base_swa", theta);
    const double usual = name_ == "glm4moe" ? 0.5 : name_.starts_with("qwen") ? 0.25 : 1;
    const double part = parameters.value("partial_rotary_factor", config_.value("partial_rotary_factor", usual));
    if (part != 1) number("rope.dimension_count", static_cast<int64_t>(part * config_["head_dim"].get<double>()));
    const bool grows = name_ == "mistral3";
    const Json scaling = grows ? parameters : config_.value("rope_scaling", Json());
    if (!scaling.is_object()) return;
    if (grows) {
      real("rope.scaling.yarn_log_multiplier", scaling["mscale_all_dim"]);
      real("attention.temperature_scale", scaling["llama_4_scaling_beta"]);
    }
    file_->text(key("rope.scaling.type"), scaling["rope_type"]);
    real("rope.scaling.factor", scaling["factor"]);
    number("rope.scaling.original_context_length", scaling["original_max_position_embeddings"].get<int64_t>());
    if (scaling.contains("attention_factor")) real("rope.scaling.yarn_attn_factor", scaling["attention_factor"]);
    real("rope.scaling.yarn_beta_fast", scaling["beta_fast"]);
    real("rope.scaling.yarn_beta_slow", scaling["beta_slow"]);
  }

  void write_qwen_keys() {
    word("expert_shared_feed_forward_length", "shared_expert_intermediate_size");
    word("ssm.conv_kernel", "linear_conv_kernel_dim");
    word("ssm.state_size", "linear_key_head_dim");
    word("ssm.group_count", "linear_num_key_heads");
    word("ssm.time_step_rank", "linear_num_value_heads");
    number("ssm.inner_size",
           config_["linear_num_value_heads"].get<int64_t>() * config_["linear_value_head_dim"].get<int64_t>());
    if (config_.contains("layer_types")) flags("attention.recurrent_layers", layers_of("linear_attention", drafting_));
    number("full_attention_interval", 4);
    if (name_ != "qwen3next") file_->integers(key("rope.dimension_sections"), {11, 11, 10, 0});
  }

  void write_glm_keys() {
    word("expert_group_count", "n_group");
    word("expert_group_used_count", "topk_group");
    word("expert_shared_count", "n_shared_experts");
    word("leading_dense_block_count", "first_k_dense_replace");
    number("expert_gating_func", 2);
    real("expert_weights_scale", config_["routed_scaling_factor"]);
    file_->boolean(key("expert_weights_norm"), config_["norm_topk_prob"]);
  }

  void write_lfm2_keys() {
    std::vector<int32_t> heads;
    for (const bool conv : layers_of("conv")) heads.push_back(conv ? 0 : config_["num_key_value_heads"].get<int32_t>());
    file_->integers(key("attention.head_count_kv"), heads);
    word("vocab_size", "vocab_size");
    word("shortconv.l_cache", "conv_L_cache");
    if (name_ == "lfm2moe") {
      word("leading_dense_block_count", "num_dense_layers");
      return number("expert_gating_func", 2);
    }
    int64_t width = config_.value("block_ff_dim", config_.value("intermediate_size", 0));
    const int64_t multiple = config_.value("block_multiple_of", 256);
    width =
        static_cast<int64_t>(config_["block_ffn_dim_multiplier"].get<double>() * static_cast<double>(2 * width / 3));
    number("feed_forward_length", (width + multiple - 1) / multiple * multiple);
  }

  // Sizes of heads are those of layers that see everything; keys that say more replace those before.
  void write_gemma4_keys() {
    const auto replace = [this](const char* name) {
      std::erase_if(file_->keys,
                    [&](const std::string& one) { return one.starts_with(GgufWriter::string(key(name))); });
    };
    const std::vector<bool> windows = layers_of("sliding_attention");
    const Json sizes = config_.value("per_layer_config", Json::object());
    Json full = config_;
    full["num_key_value_heads"] = config_.value("num_global_key_value_heads", config_["num_key_value_heads"]);
    full["head_dim"] = config_.value("global_head_dim", Json());
    if (!sizes.empty()) full.update(sizes.begin().value());
    for (const char* name : {"attention.key_length", "attention.value_length", "rope.dimension_count"}) {
      replace(name);
      number(name, full["head_dim"].get<int64_t>());
      number((std::string(name) + "_swa").c_str(), config_["head_dim"].get<int64_t>());
    }
    std::vector<int32_t> heads, widths;
    const int64_t shared = config_.value("num_kv_shared_layers", 0);
    const bool doubled = config_.value("use_double_wide_mlp", false);
    for (int64_t i = 0; i < layers_; ++i) {
      heads.push_back((windows[static_cast<size_t>(i)] ? config_ : full)["num_key_value_heads"].get<int32_t>());
      widths.push_back(config_["intermediate_size"].get<int32_t>() * (doubled && i >= layers_ - shared ? 2 : 1));
    }
    file_->integers(key("attention.head_count_kv"), heads);
    if (doubled) {
      replace("feed_forward_length");
      file_->integers(key("feed_forward_length"), widths);
    }
    number("attention.shared_kv_layers", shared);
    word("embedding_length_per_layer_input", "hidden_size_per_layer_input");
    word("attention.sliding_window", "sliding_window");
    word("expert_used_count", "top_k_experts");
    flags("attention.sliding_window_pattern", windows);
    const Json softcap = config_.value("final_logit_softcapping", Json());
    if (!softcap.is_null()) real("final_logit_softcapping", softcap);
    rope_ = config_.value("rope_parameters", Json::object());
    const Json sliding = rope_.value("sliding_attention", Json::object());
    rope_ = rope_.value("full_attention", Json::object());
    real("rope.freq_base", rope_.value("rope_theta", Json(1e6)));
    real("rope.freq_base_swa", sliding.value("rope_theta", Json(1e4)));
    rope_["head_dim"] = full["head_dim"];
  }

  Json config_, rope_;
  std::string name_;
  int64_t layers_ = 0, drafting_ = 0;
  GgufWriter* file_ = nullptr;
};

}  // namespace ashlar::testing
