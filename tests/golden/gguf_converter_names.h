// SPDX-License-Identifier: Apache-2.0
#pragma once
// What llama.cpp's converter calls tensors of the families of gguf_converter.h.

#include <string>
#include <string_view>
#include <utility>

namespace ashlar::testing {

/// "blk.3.attn_q.weight" of "model.layers.3.self_attn.q_proj.weight".
inline std::string converted_name(const std::string& name) {
  constexpr std::pair<std::string_view, std::string_view> kWhole[] = {
      {"model.embed_tokens_per_layer.", "per_layer_token_embd."},
      {"model.per_layer_model_projection.", "per_layer_model_proj."},
      {"model.per_layer_projection_norm.", "per_layer_proj_norm."},
      {"model.embed_tokens.", "token_embd."},
      {"model.transformer.wte.", "token_embd."},
      {"model.transformer.ln_f.", "output_norm."},
      {"model.transformer.ff_out.", "output."},
      {"model.embedding_norm.", "token_embd_norm."},
      {"model.norm.", "output_norm."},
      {"lm_head.", "output."}};
  constexpr std::pair<std::string_view, std::string_view> kParts[] = {
      {"input_layernorm.", "attn_norm."},
      {"operator_norm.", "attn_norm."},
      {"ff_norm.", "ffn_norm."},
      {"q_proj.", "attn_q."},
      {"k_proj.", "attn_k."},
      {"v_proj.", "attn_v."},
      {"attn_out.", "attn_output."},
      {"ff_proj.", "ffn_gate."},
      {"up_proj.", "ffn_up."},
      {"ff_out.", "ffn_down."},
      {"post_attention_layernorm.", "post_attention_norm."},
      {"pre_feedforward_layernorm.", "ffn_norm."},
      {"post_feedforward_layernorm.", "post_ffw_norm."},
      {"post_feedforward_layernorm_1.", "post_ffw_norm_1."},
      {"pre_feedforward_layernorm_2.", "pre_ffw_norm_2."},
      {"post_feedforward_layernorm_2.", "post_ffw_norm_2."},
      {"post_per_layer_input_norm.", "post_norm."},
      {"per_layer_input_gate.", "inp_gate."},
      {"per_layer_projection.", "proj."},
      {"layer_scalar", "layer_output_scale.weight"},
      {"self_attn.q_proj.", "attn_q."},
      {"self_attn.k_proj.", "attn_k."},
      {"self_attn.v_proj.", "attn_v."},
      {"self_attn.o_proj.", "attn_output."},
      {"self_attn.out_proj.", "attn_output."},
      {"self_attn.q_norm.", "attn_q_norm."},
      {"self_attn.k_norm.", "attn_k_norm."},
      {"self_attn.q_layernorm.", "attn_q_norm."},
      {"self_attn.k_layernorm.", "attn_k_norm."},
      {"linear_attn.in_proj_qkv.", "attn_qkv."},
      {"linear_attn.in_proj_z.", "attn_gate."},
      {"linear_attn.in_proj_ba.", "ssm_ba."},
      {"linear_attn.in_proj_b.", "ssm_beta."},
      {"linear_attn.in_proj_a.", "ssm_alpha."},
      {"linear_attn.conv1d.", "ssm_conv1d."},
      {"linear_attn.A_log", "ssm_a"},
      {"linear_attn.dt_bias", "ssm_dt.bias"},
      {"linear_attn.norm.", "ssm_norm."},
      {"linear_attn.out_proj.", "ssm_out."},
      {"conv.in_proj.", "shortconv.in_proj."},
      {"conv.conv.", "shortconv.conv."},
      {"conv.out_proj.", "shortconv.out_proj."},
      {"feed_forward.w1.", "ffn_gate."},
      {"feed_forward.w2.", "ffn_down."},
      {"feed_forward.w3.", "ffn_up."},
      {"feed_forward.gate.", "ffn_gate_inp."},
      {"feed_forward.expert_bias", "exp_probs_b.bias"},
      {"feed_forward.experts.w1", "ffn_gate_exps.weight"},
      {"feed_forward.experts.w2", "ffn_down_exps.weight"},
      {"feed_forward.experts.w3", "ffn_up_exps.weight"},
      {"mlp.gate_proj.", "ffn_gate."},
      {"mlp.up_proj.", "ffn_up."},
      {"mlp.down_proj.", "ffn_down."},
      {"mlp.gate.e_score_correction_bias", "exp_probs_b.bias"},
      {"mlp.gate.", "ffn_gate_inp."},
      {"mlp.shared_expert_gate.", "ffn_gate_inp_shexp."},
      {"mlp.shared_expert.gate_proj.", "ffn_gate_shexp."},
      {"mlp.shared_expert.up_proj.", "ffn_up_shexp."},
      {"mlp.shared_expert.down_proj.", "ffn_down_shexp."},
      {"mlp.shared_experts.gate_proj.", "ffn_gate_shexp."},
      {"mlp.shared_experts.up_proj.", "ffn_up_shexp."},
      {"mlp.shared_experts.down_proj.", "ffn_down_shexp."},
      {"mlp.experts.gate_proj", "ffn_gate_exps.weight"},
      {"mlp.experts.up_proj", "ffn_up_exps.weight"},
      {"mlp.experts.down_proj", "ffn_down_exps.weight"},
      {"experts.gate_up_proj", "ffn_gate_up_exps.weight"},
      {"experts.down_proj", "ffn_down_exps.weight"},
      {"router.proj.", "ffn_gate_inp."},
      {"router.scale", "ffn_gate_inp.scale"},
      {"router.per_expert_scale", "ffn_down_exps.scale"},
      {"eh_proj.", "nextn.eh_proj."},
      {"enorm.", "nextn.enorm."},
      {"hnorm.", "nextn.hnorm."},
      {"embed_tokens.", "nextn.embed_tokens."},
      {"shared_head.norm.", "nextn.shared_head_norm."},
      {"shared_head.head.", "nextn.shared_head_head."}};
  constexpr std::string_view kLayers = "model.layers.";
  const auto renamed = [](std::string_view part, const auto& table) {
    for (const auto& [from, to] : table) {
      if (part.starts_with(from)) return std::string(to) + std::string(part.substr(from.size()));
    }
    return std::string(part);
  };
  if (!name.starts_with(kLayers)) return renamed(name, kWhole);
  const size_t end = name.find('.', kLayers.size()) + 1;
  return "blk." + name.substr(kLayers.size(), end - kLayers.size()) + renamed(name.substr(end), kParts);
}

}  // namespace ashlar::testing
