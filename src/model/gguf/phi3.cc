// SPDX-License-Identifier: Apache-2.0
// Phi-3 and Phi-4. The window is 0 where there is none. Both sets of factors of LongRoPE are tensors.

#include "model/gguf/architecture.h"

namespace ashlar {
namespace {

void complete_gguf_phi3(const GgufKeys& keys, const Checkpoint& checkpoint, Json& config) {
  if (keys.number("attention.sliding_window", 0) != 0) config["sliding_window"] = keys.raw("attention.sliding_window");
  const int64_t whole = config["head_dim"].is_number_integer() ? config["head_dim"].get<int64_t>() : 0;
  const int64_t count = keys.fields().integer(keys.full("rope.dimension_count"), 0, 1 << 16, whole) / 2;
  const auto factors = [&](const char* name) {
    const auto found = checkpoint.tensors().find(name);
    return found == checkpoint.tensors().end() ? Json() : Json(read_rope_factors(*found->second, count));
  };
  const Json own = factors("rope_factors_short.weight"), beyond = factors("rope_factors_long.weight");
  if (own.is_null() && beyond.is_null()) {
    gguf_rope_scaling(keys);  // refuses the type, which has no meaning without them
    return keys.require("rope.scaling.attn_factor", 1);
  }
  config["rope_scaling"] = {{"rope_type", "longrope"}, {"short_factor", own}, {"long_factor", beyond}};
  constexpr GgufWord kWords[] = {{"rope.scaling.original_context_length", "original_max_position_embeddings", true},
                                 {"rope.scaling.attn_factor", "attention_factor", false}};
  keys.translate(kWords, config["rope_scaling"]);
}

constexpr LayerNames gguf_phi3_names() {
  LayerNames names = fused_gate_up();
  names.fused_qkv = "attn_qkv";
  return names;
}

}  // namespace

const GgufArchitecture kGgufPhi3 = {.name = "phi3",
                                    .family = "phi3",
                                    .names = gguf_phi3_names(),
                                    .complete = complete_gguf_phi3,
                                    .windows = true,
                                    .rotates_part = true,
                                    .long_rope = true};

}  // namespace ashlar
