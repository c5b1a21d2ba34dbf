// SPDX-License-Identifier: Apache-2.0
// LFM2 and its mixtures. Layers without heads of keys are convolutions.

#include <algorithm>

#include "model/gguf/architecture.h"

namespace ashlar {
namespace {

constexpr const char* kGgufLfm2KvHeads = "attention.head_count_kv";

void complete_gguf_lfm2(const GgufKeys& keys, const Checkpoint&, Json& config) {
  constexpr GgufWord kWords[] = {{"shortconv.l_cache", "conv_L_cache", true},
                                 {"attention.layer_norm_rms_epsilon", "norm_eps", true}};
  keys.translate(kWords, config);
  config["block_auto_adjust_ff_dim"] = false;  // the width is what it came to
  const int64_t usual = keys.fields().integer(keys.full("attention.head_count"), 1, 4096);
  const std::vector<int64_t> heads = keys.for_layers(kGgufLfm2KvHeads, 0, 4096, usual);
  const int64_t most = *std::max_element(heads.begin(), heads.end());
  config["num_key_value_heads"] = most;
  config["layer_types"] = Json::array();
  for (const int64_t count : heads) {
    if (count != 0 && count != most) keys.refuse_list(kGgufLfm2KvHeads, "0 or one number, the same in all layers");
    config["layer_types"].push_back(count == 0 ? "conv" : "full_attention");
  }
}

void complete_gguf_lfm2_moe(const GgufKeys& keys, const Checkpoint& checkpoint, Json& config) {
  complete_gguf_lfm2(keys, checkpoint, config);
  constexpr GgufWord kWords[] = {{"leading_dense_block_count", "num_dense_layers", true},
                                 {"expert_weights_scale", "routed_scaling_factor", false},
                                 {"expert_weights_norm", "norm_topk_prob", false}};
  keys.translate(kWords, config);
  require_gating(keys, GgufGating::kSigmoid);
}

constexpr LayerNames gguf_lfm2_names() {
  LayerNames names = kGgufLayerNames;
  names.conv_input = "shortconv.in_proj";
  names.conv_taps = "shortconv.conv";
  names.conv_output = "shortconv.out_proj";
  names.expert_bias = "exp_probs_b.bias";
  return names;
}

}  // namespace

const GgufArchitecture kGgufLfm2 = {.name = "lfm2",
                                    .family = "lfm2",
                                    .names = gguf_lfm2_names(),
                                    .norm = "token_embd_norm",
                                    .per_layer = {kGgufLfm2KvHeads},
                                    .complete = complete_gguf_lfm2};
const GgufArchitecture kGgufLfm2Moe = {.name = "lfm2moe",
                                       .family = "lfm2_moe",
                                       .names = gguf_lfm2_names(),
                                       .norm = "token_embd_norm",
                                       .per_layer = {kGgufLfm2KvHeads},
                                       .complete = complete_gguf_lfm2_moe,
                                       .mixture = true,
                                       .weighs_experts = true};

}  // namespace ashlar
