// SPDX-License-Identifier: Apache-2.0
#pragma once
// Architectures of GGUF files: what each has of its own when its metadata become the words of a family's config.json. A
// new one is a file next to this, or a row of architectures.cc where it has nothing of its own. Source: llama.cpp's
// converter.

#include <cstdint>
#include <string>

#include "model/gguf/gguf_keys.h"

namespace ashlar {

struct GgufArchitecture {
  const char* name;    ///< general.architecture
  const char* family;  ///< model_type of config.json
  LayerNames names = kGgufLayerNames;
  const char* norm = "output_norm";  ///< of what leaves the last layer
  /// Keys that may have a value for each layer, which is up to complete(); null: there are no more.
  const char* per_layer[2] = {};
  /// Adds to the words of config.json what only this architecture says, or refuses it; null: nothing.
  void (*complete)(const GgufKeys& keys, const Checkpoint& checkpoint, Json& config) = nullptr;
  bool mixture = false;
  bool shared_experts = false;  ///< as many experts for all rows as expert_shared_count says
  bool weighs_experts = false;  ///< by expert_weights_scale and expert_weights_norm
  bool groups_experts = false;  ///< by expert_group_count
  bool windows = false;         ///< some of its layers have one
  bool multipliers = false;     ///< it has those of Granite
  bool rotates_part = false;    ///< of each head
  bool long_rope = false;       ///< it may have two sets of factors (LongRoPE)
  bool own_factors = false;     ///< what factors of its rope mean is its own matter
  bool softcap = false;         ///< of logits
  bool grows_queries = false;   ///< with the position; its rope may say mscale_all_dim (yarn_log_multiplier)
  bool causal = true;           ///< rows see those before them alone
  bool drafts = false;          ///< its last layers may be some that draft (MTP), which block_count counts
};

extern const GgufArchitecture kGgufDream;
extern const GgufArchitecture kGgufGemma3;
extern const GgufArchitecture kGgufGemma4;
extern const GgufArchitecture kGgufGlm4;
extern const GgufArchitecture kGgufGlm4Moe;
extern const GgufArchitecture kGgufGptOss;
extern const GgufArchitecture kGgufLfm2;
extern const GgufArchitecture kGgufLfm2Moe;
extern const GgufArchitecture kGgufLlada;
extern const GgufArchitecture kGgufMistral3;
extern const GgufArchitecture kGgufOlmo2;
extern const GgufArchitecture kGgufPhi3;
extern const GgufArchitecture kGgufQwen35;
extern const GgufArchitecture kGgufQwen35Moe;
extern const GgufArchitecture kGgufQwen3Next;

/// llama.cpp rotates adjacent dimensions in some models, and their converter reorders rows to suit, or leaves them so.
constexpr LayerNames interleaved(LayerNames names = kGgufLayerNames) {
  names.interleaved_heads = true;
  return names;
}
/// Gates, then ups, in one tensor, which is called as ups are elsewhere.
constexpr LayerNames fused_gate_up(LayerNames names = kGgufLayerNames) {
  names.fused_gate_up = names.up;
  return names;
}

/// Experts that every row goes through, and what multiplies them.
constexpr LayerNames shared_experts(LayerNames names = kGgufLayerNames) {
  names.shared_experts = "ffn_";
  names.shared_gate_part = "gate_shexp";
  names.shared_up_part = "up_shexp";
  names.shared_down_part = "down_shexp";
  names.shared_gate = "ffn_gate_inp_shexp";
  return names;
}

/// How many layers draft.
int64_t drafting_layers(const GgufKeys& keys);

/// What makes weights of experts of the router's logits, as files number it.
enum class GgufGating : uint8_t { kSoftmax = 1, kSigmoid = 2 };
/// Throws Error("gguf", ...) where the file says another one.
void require_gating(const GgufKeys& keys, GgufGating gating);

/// nullptr if the name is unknown.
const GgufArchitecture* find_gguf_architecture(const std::string& name);
std::string gguf_architecture_names();  ///< "llama, qwen2, ..."

}  // namespace ashlar
