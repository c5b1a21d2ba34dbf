// SPDX-License-Identifier: Apache-2.0
// Qwen3.5, its mixtures and Qwen3-Next. Files know the text model alone, whose rope by sections rotates as any other
// does. Gated delta nets have the keys of state space models there: state_size is the size of a key head, group_count
// are the key heads, time_step_rank the value heads, inner_size is the width of all of these.

#include "model/gguf/architecture.h"

namespace ashlar {
namespace {

// Which layers are delta nets, where files say it of each, those that draft among them.
void add_layer_types(const GgufKeys& keys, Json& config) {
  constexpr const char* kRecurrent = "attention.recurrent_layers";
  if (!keys.has_list(kRecurrent)) return;
  const std::vector<bool> recurrent = keys.flags_for_layers(kRecurrent);
  config["layer_types"] = Json::array();
  for (int64_t i = 0; i < config["num_hidden_layers"].get<int64_t>(); ++i) {
    config["layer_types"].push_back(recurrent[static_cast<size_t>(i)] ? "linear_attention" : "full_attention");
  }
}

void complete_gguf_qwen_delta(const GgufKeys& keys, const Checkpoint&, Json& config) {
  constexpr GgufWord kWords[] = {{"ssm.conv_kernel", "linear_conv_kernel_dim", true},
                                 {"ssm.state_size", "linear_key_head_dim", true},
                                 {"ssm.group_count", "linear_num_key_heads", true},
                                 {"ssm.time_step_rank", "linear_num_value_heads", true},
                                 {"full_attention_interval", "full_attention_interval", false}};
  keys.translate(kWords, config);
  const int64_t heads = keys.fields().integer(keys.full("ssm.time_step_rank"), 1, 1024);
  const std::string width = keys.full("ssm.inner_size");
  const int64_t inner = keys.fields().integer(width, 1, 1 << 20);
  if (inner % heads != 0) keys.fields().fail(width, "a multiple of ssm.time_step_rank (" + std::to_string(heads) + ")");
  config["linear_value_head_dim"] = inner / heads;
  add_layer_types(keys, config);
  config["mtp_num_hidden_layers"] = drafting_layers(keys);
}

void complete_gguf_qwen_delta_moe(const GgufKeys& keys, const Checkpoint& checkpoint, Json& config) {
  complete_gguf_qwen_delta(keys, checkpoint, config);
  constexpr GgufWord kWords[] = {{"expert_shared_feed_forward_length", "shared_expert_intermediate_size", true}};
  keys.translate(kWords, config);
  require_gating(keys, GgufGating::kSoftmax);
}

// Layers without experts are known by their tensors alone.
void complete_next(const GgufKeys& keys, const Checkpoint& checkpoint, Json& config) {
  complete_gguf_qwen_delta_moe(keys, checkpoint, config);
  config["mlp_only_layers"] = Json::array();
  for (int64_t i = 0; i < config["num_hidden_layers"].get<int64_t>(); ++i) {
    if (!has_layer_weight(checkpoint, i, kGgufLayerNames.router)) config["mlp_only_layers"].push_back(i);
  }
}

constexpr LayerNames next_names() {
  LayerNames names = shared_experts();
  names.post_norm = "post_attention_norm";
  names.delta_qkv = "attn_qkv";
  names.delta_z = "attn_gate";
  names.fused_delta_ba = "ssm_ba";
  names.delta_taps = "ssm_conv1d";
  names.delta_decay = "ssm_a";
  names.delta_bias = "ssm_dt.bias";
  names.delta_norm = "ssm_norm";
  names.delta_output = "ssm_out";
  names.decay_is_factor = true;
  return names;
}

constexpr LayerNames gguf_qwen_delta_names() {
  LayerNames names = next_names();
  names.fused_delta_ba = nullptr;
  names.delta_b = "ssm_beta";
  names.delta_a = "ssm_alpha";
  names.value_heads_by_turns = true;
  return names;
}

}  // namespace

const GgufArchitecture kGgufQwen35 = {.name = "qwen35",
                                      .family = "qwen3_5_text",
                                      .names = gguf_qwen_delta_names(),
                                      .complete = complete_gguf_qwen_delta,
                                      .rotates_part = true,
                                      .drafts = true};
const GgufArchitecture kGgufQwen35Moe = {.name = "qwen35moe",
                                         .family = "qwen3_5_moe_text",
                                         .names = gguf_qwen_delta_names(),
                                         .complete = complete_gguf_qwen_delta_moe,
                                         .mixture = true,
                                         .rotates_part = true,
                                         .drafts = true};
const GgufArchitecture kGgufQwen3Next = {.name = "qwen3next",
                                         .family = "qwen3_next",
                                         .names = next_names(),
                                         .complete = complete_next,
                                         .mixture = true,
                                         .rotates_part = true,
                                         .drafts = true};

}  // namespace ashlar
