// SPDX-License-Identifier: Apache-2.0
#pragma once
// What checkpoints call the tensors of a model: a table a family, and one for GGUF files. Names are without ".weight"
// and ".bias".

namespace ashlar {

/// Names within one layer. The defaults are those of Hugging Face's Llama, Qwen and their mixtures.
struct LayerNames {
  const char* input_norm = "input_layernorm";
  const char* post_norm = "post_attention_layernorm";
  const char* mixer_output_norm = "post_attention_layernorm";  ///< where there are output norms
  const char* mlp_output_norm = "post_feedforward_layernorm";
  const char* fused_qkv = nullptr;  ///< all q rows, all k rows, all v rows in one tensor; null: three tensors
  const char* q = "self_attn.q_proj";
  const char* k = "self_attn.k_proj";
  const char* v = "self_attn.v_proj";
  const char* q_norm = "self_attn.q_norm";
  const char* k_norm = "self_attn.k_norm";
  const char* attention_output = "self_attn.o_proj";
  const char* sinks = "self_attn.sinks";     ///< in full
  const char* layer_scale = "layer_scalar";  ///< in full

  // Of the layer's own embedding.
  const char* embedding_gate = "per_layer_input_gate";
  const char* embedding_output = "per_layer_projection";
  const char* embedding_norm = "post_per_layer_input_norm";

  // Of a gated delta net.
  const char* delta_qkv = "linear_attn.in_proj_qkv";
  const char* delta_z = "linear_attn.in_proj_z";
  const char* delta_b = "linear_attn.in_proj_b";
  const char* delta_a = "linear_attn.in_proj_a";
  /// In place of the four before: of each key head its query, key, values and z, and its values' b and a; null: none.
  const char* fused_delta_qkvz = nullptr;
  const char* fused_delta_ba = nullptr;
  const char* delta_taps = "linear_attn.conv1d";
  const char* delta_decay = "linear_attn.A_log";   ///< in full; its logarithm, unless decay_is_factor
  const char* delta_bias = "linear_attn.dt_bias";  ///< in full
  const char* delta_norm = "linear_attn.norm";
  const char* delta_output = "linear_attn.out_proj";

  // Of a gated short convolution.
  const char* conv_input = "conv.in_proj";
  const char* conv_taps = "conv.conv";
  const char* conv_output = "conv.out_proj";

  const char* gate = "mlp.gate_proj";
  const char* up = "mlp.up_proj";
  const char* down = "mlp.down_proj";
  const char* fused_gate_up = nullptr;  ///< all gate rows, all up rows in one tensor; null: two tensors

  // Of a mixture of experts.
  const char* router = "mlp.gate";
  const char* expert_bias = "mlp.gate.expert_bias";   ///< in full
  const char* experts = "mlp.experts.";               ///< then "e.gate_proj.weight" and so on; null: always merged
  const char* merged_gate = "mlp.experts.gate_proj";  ///< in full: those of all experts in one tensor
  const char* merged_up = "mlp.experts.up_proj";
  const char* merged_down = "mlp.experts.down_proj";
  const char* merged_gate_up = "mlp.experts.gate_up_proj";  ///< in place of the first two: of each expert gate, then up
  const char* shared_experts = "mlp.shared_experts.";       ///< then the next three
  const char* shared_gate_part = "gate_proj";
  const char* shared_up_part = "up_proj";
  const char* shared_down_part = "down_proj";
  const char* shared_gate = "mlp.shared_expert_gate";
  // Where a mixture stands next to the dense MLP.
  const char* router_scale = "router.scale";             ///< in full; of what enters the router
  const char* expert_scale = "router.per_expert_scale";  ///< in full
  const char* dense_output_norm = "post_feedforward_layernorm_1";
  const char* experts_norm = "pre_feedforward_layernorm_2";
  const char* experts_output_norm = "post_feedforward_layernorm_2";

  // Of convolutions around both parts of a layer.
  const char* mixer_conv_base = "attention_conv.base_kernel";  ///< in full
  const char* mixer_conv_kernel = "attention_conv.kernel_projection";
  const char* mlp_conv_base = "mlp_conv.base_kernel";  ///< in full
  const char* mlp_conv_kernel = "mlp_conv.kernel_projection";

  /// Of q and k: the halves of what is rotated of each head are interleaved (InterleavedHeads).
  bool interleaved_heads = false;
  /// Of a gated delta net: delta_decay holds -exp of it, as it is used.
  bool decay_is_factor = false;
  /// Of one: value heads lie by turns, the first of each key head, then the second of each (DeltaShape).
  bool value_heads_by_turns = false;
};

/// Names of the layer that drafts further tokens (MTP), after what all of them begin with. The defaults are Qwen's.
struct MtpNames {
  const char* prefix = "mtp.";  ///< null: they begin as those of one more layer of the model would
  const char* projection = "fc";
  const char* embedding_norm = "pre_fc_norm_embedding";
  const char* hidden_norm = "pre_fc_norm_hidden";
  const char* norm = "norm";
  const char* layer = "layers.0.";  ///< then a name of LayerNames
  // Of copies of the model's own; null: there are none.
  const char* embedding = nullptr;
  const char* head = nullptr;
};
inline constexpr MtpNames kQwenMtp = {};
/// DeepSeek-V3's, which GLM has too.
inline constexpr MtpNames kDeepSeekMtp = {.prefix = nullptr,
                                          .projection = "eh_proj",
                                          .embedding_norm = "enorm",
                                          .hidden_norm = "hnorm",
                                          .norm = "shared_head.norm",
                                          .layer = "",
                                          .embedding = "embed_tokens",
                                          .head = "shared_head.head"};

/// llama.cpp's of either.
inline constexpr MtpNames kGgufMtp = {.prefix = nullptr,
                                      .projection = "nextn.eh_proj",
                                      .embedding_norm = "nextn.enorm",
                                      .hidden_norm = "nextn.hnorm",
                                      .norm = "nextn.shared_head_norm",
                                      .layer = "",
                                      .embedding = "nextn.embed_tokens",
                                      .head = "nextn.shared_head_head"};

struct ModelNames {
  const char* embedding = "model.embed_tokens";
  const char* layers = "model.layers.";  ///< then "i." and a name of LayerNames
  const char* norm = "model.norm";
  const char* head = "lm_head";
  // Of the embeddings of layers.
  const char* layer_embedding = "model.embed_tokens_per_layer";
  const char* layer_embedding_projection = "model.per_layer_model_projection";
  const char* layer_embedding_norm = "model.per_layer_projection_norm";
  const char* rope_factors = nullptr;  ///< in full; read with the configuration (RopeConfig::factors)
  /// What names of parts begin with that are no part of the text model, and not used; null: there is none.
  const char* unused[4] = {};
  const MtpNames* mtp = nullptr;  ///< of the layer that drafts further tokens, which only drafting needs; null: none
};

/// Names of a drafter's tensors, after what all of them may begin with (find_prefix). The defaults are those of z-lab,
/// of speculators and of EAGLE-3.
struct DrafterNames {
  const char* projection = "fc";
  const char* feature_norm = "hidden_norm";  ///< of what the projection gives
  const char* aux_norm = "input_norm";       ///< of what enters it
  const char* layers = "layers.";            ///< then "i." and a name of LayerNames
  const char* pair_norm = "hidden_norm";     ///< in a layer that reads a token next to a feature: of the feature
  const char* norm = "norm";
  const char* embedding = "embed_tokens";
  const char* head = "lm_head";
  const char* selector_projection = "candidate_selector.hidden_projection";
  const char* selector_predecessors = "candidate_selector.predecessor_codebook";
  const char* selector_successors = "candidate_selector.successor_codebook";
  const char* lattice = "lilicorr.";  ///< then "in_head" and so on
  const char* markov_codes = "markov_head.markov_w1";
  const char* markov_outputs = "markov_head.markov_w2";
  const char* markov_gate = "markov_head.gate_proj";
  const char* confidence = "confidence_head.proj";
  const char* rope_factors = nullptr;  ///< in full; as those of ModelNames
  /// Of a vocabulary that is a part of the target's, d2t holds the target's ids themselves, not how far they are off.
  bool target_ids = false;
};

}  // namespace ashlar
