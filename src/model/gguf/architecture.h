// SPDX-License-Identifier: Apache-2.0
#pragma once
// Architectures of GGUF files: what each has of its own when its metadata become the words of a family's config.json. A
// new one is a file next to this, or a row of architectures.cc where it has nothing of its own. Source: llama.cpp's
// converter.

#include <string>

#include "model/gguf/gguf_keys.h"

namespace ashlar {

struct GgufArchitecture {
  const char* name;    ///< general.architecture
  const char* family;  ///< model_type of config.json
  LayerNames names = kGgufLayerNames;
  /// Adds to the words of config.json what only this architecture says, or refuses it; null: nothing.
  void (*complete)(const GgufKeys& keys, const Checkpoint& checkpoint, Json& config) = nullptr;
  bool mixture = false;
  bool windows = false;       ///< some of its layers have one
  bool multipliers = false;   ///< it has those of Granite
  bool rotates_part = false;  ///< of each head
  bool long_rope = false;     ///< it may have two sets of factors (LongRoPE)
};

extern const GgufArchitecture kGgufGemma3;
extern const GgufArchitecture kGgufGlm4;
extern const GgufArchitecture kGgufGptOss;
extern const GgufArchitecture kGgufPhi3;

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

/// nullptr if the name is unknown.
const GgufArchitecture* find_gguf_architecture(const std::string& name);
std::string gguf_architecture_names();  ///< "llama, qwen2, ..."

}  // namespace ashlar
