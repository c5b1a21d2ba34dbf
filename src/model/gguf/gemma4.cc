// SPDX-License-Identifier: Apache-2.0
// Gemma 4. Sizes of heads are those of layers that see everything, and have a second key for layers with a window. Its
// rope's factors say how many frequencies of the former turn: 1 where one does, and a huge number where it stands
// still.

#include <algorithm>

#include "base/error.h"
#include "model/gguf/architecture.h"

namespace ashlar {
namespace {

constexpr const char* kGgufGemma4KvHeads = "attention.head_count_kv";
constexpr const char* kWidth = "feed_forward_length";
constexpr const char* kFactors = "rope_freqs.weight";
constexpr float kStandsStill = 1e30F;

// The share of a head's frequencies that turn.
double turning_part(const Checkpoint& checkpoint, int64_t head_dim) {
  const auto found = checkpoint.tensors().find(kFactors);
  if (found == checkpoint.tensors().end()) return 1;
  const std::vector<float> factors = read_rope_factors(*found->second, head_dim / 2);
  const auto turn = std::find_if(factors.begin(), factors.end(), [](float factor) { return factor != 1; });
  if (!std::all_of(turn, factors.end(), [](float factor) { return factor == kStandsStill; })) {
    throw Error("gguf", checkpoint.folder().string() + ": tensor " + kFactors +
                            ": expected ones, then numbers of 1e30 (frequencies that turn, and those that do not)");
  }
  return rotary_factor(2 * static_cast<double>(turn - factors.begin()), static_cast<double>(head_dim));
}

void add_ropes(const GgufKeys& keys, const Checkpoint& checkpoint, int64_t head_dim, Json& config) {
  const double theta = keys.number("rope.freq_base", 10000);
  if (config.contains("rope_scaling")) keys.fields().fail(keys.full("rope.scaling.type"), "none");
  config["rope_parameters"] = {
      {"full_attention",
       {{"rope_type", "proportional"},
        {"rope_theta", theta},
        {"partial_rotary_factor", turning_part(checkpoint, head_dim)}}},
      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", keys.number("rope.freq_base_swa", theta)}}}};
}

// Layers that see everything, in heads. Values may be their keys, which their tensors say.
void add_gemma4_heads(const GgufKeys& keys, const Checkpoint& checkpoint, int64_t shared, Json& config) {
  const Json& types = config["layer_types"];
  const auto layers = static_cast<int64_t>(types.size());
  const int64_t heads = keys.fields().integer(keys.full("attention.head_count"), 1, 4096);
  const std::vector<int64_t> kv_heads = keys.for_layers(kGgufGemma4KvHeads, 1, 4096, heads);
  const Json whole = config["head_dim"];
  Json sizes = Json::object();
  int64_t with_values = 0, without = 0;
  for (int64_t i = 0; i < layers; ++i) {
    const int64_t own = kv_heads[static_cast<size_t>(i)];
    if (types[static_cast<size_t>(i)] == "sliding_attention") {
      if (config.contains("num_key_value_heads") && config["num_key_value_heads"] != own) {
        keys.refuse_list(kGgufGemma4KvHeads, "one number for all layers with a window");
      }
      config["num_key_value_heads"] = own;
      continue;
    }
    sizes[std::to_string(i)] = {{"head_dim", whole}, {"num_key_value_heads", own}};
    if (i >= layers - shared) continue;
    const bool has_values = has_layer_weight(checkpoint, i, kGgufLayerNames.v);
    ++(has_values ? with_values : without);
  }
  if (!config.contains("num_key_value_heads")) config["num_key_value_heads"] = kv_heads[0];
  if (with_values > 0 && without > 0) {
    throw Error("gguf", checkpoint.folder().string() + ": expected tensors " + kGgufLayerNames.v +
                            ".weight in all layers that see everything, or in none of them; found " +
                            std::to_string(with_values) + " and lack " + std::to_string(without));
  }
  config["attention_k_eq_v"] = without > 0;
  config["per_layer_config"] = std::move(sizes);
  config["head_dim"] = keys.raw("attention.key_length_swa");
  for (const char* key : {"attention.value_length_swa", "rope.dimension_count_swa"}) {
    if (keys.has(key) && keys.raw(key) != config["head_dim"]) {
      keys.fields().fail(keys.full(key), config["head_dim"].dump() + ", the size of a head with a window");
    }
  }
}

// The last layers, which read keys and values of earlier ones, may have MLPs of twice the width.
void add_widths(const GgufKeys& keys, int64_t shared, Json& config) {
  const std::vector<int64_t> widths = keys.for_layers(kWidth, 1, 1 << 20);
  config["intermediate_size"] = widths.front();
  const bool doubled = widths.back() != widths.front();
  config["use_double_wide_mlp"] = doubled;
  for (size_t i = 0; i < widths.size(); ++i) {
    const bool is_shared = static_cast<int64_t>(i) >= static_cast<int64_t>(widths.size()) - shared;
    if (widths[i] == widths.front() * (doubled && is_shared ? 2 : 1)) continue;
    keys.refuse_list(kWidth, "one width, or twice that in the last shared_kv_layers layers");
  }
}

void complete_gguf_gemma4(const GgufKeys& keys, const Checkpoint& checkpoint, Json& config) {
  constexpr GgufWord kWords[] = {{"attention.sliding_window", "sliding_window", true},
                                 {"attention.shared_kv_layers", "num_kv_shared_layers", false},
                                 {"embedding_length_per_layer_input", "hidden_size_per_layer_input", false},
                                 {"final_logit_softcapping", "final_logit_softcapping", false},
                                 {"expert_used_count", "top_k_experts", false}};
  keys.translate(kWords, config);
  const auto layers = config["num_hidden_layers"].get<int64_t>();
  const int64_t shared = keys.fields().integer(keys.full("attention.shared_kv_layers"), 0, layers - 1, 0);
  if (!config.contains("hidden_size_per_layer_input")) config["hidden_size_per_layer_input"] = 0;
  config["layer_types"] = gguf_window_types(keys, layers, 6);
  if (config["layer_types"].back() != "full_attention") {
    keys.refuse_list("attention.sliding_window_pattern", "false for the last layer");
  }
  const int64_t head_dim = keys.fields().integer(keys.full("attention.key_length"), 2, 1 << 16);
  add_ropes(keys, checkpoint, head_dim, config);
  add_gemma4_heads(keys, checkpoint, shared, config);
  add_widths(keys, shared, config);
  require_gating(keys, GgufGating::kSoftmax);
  config["enable_moe_block"] = keys.number("expert_count", 0) != 0;
  const auto table = checkpoint.tensors().find("per_layer_token_embd.weight");
  if (table == checkpoint.tensors().end()) return;
  if (table->second->shape.size() != 2) {
    throw Error("gguf", checkpoint.folder().string() + ": tensor per_layer_token_embd.weight: expected two dimensions");
  }
  config["vocab_size_per_layer_input"] = table->second->shape[0];
}

constexpr LayerNames gguf_gemma4_names() {
  LayerNames names = kGgufLayerNames;
  names.layer_scale = "layer_output_scale.weight";
  names.embedding_gate = "inp_gate";
  names.embedding_output = "proj";
  names.embedding_norm = "post_norm";
  names.router_scale = "ffn_gate_inp.scale";
  names.expert_scale = "ffn_down_exps.scale";
  names.dense_output_norm = "post_ffw_norm_1";
  names.experts_norm = "pre_ffw_norm_2";
  names.experts_output_norm = "post_ffw_norm_2";
  return names;
}

}  // namespace

const GgufArchitecture kGgufGemma4 = {.name = "gemma4",
                                      .family = "gemma4_text",
                                      .names = gguf_gemma4_names(),
                                      .per_layer = {kGgufGemma4KvHeads, kWidth},
                                      .complete = complete_gguf_gemma4,
                                      .mixture = true,
                                      .windows = true,
                                      .own_factors = true,
                                      .softcap = true};

}  // namespace ashlar
