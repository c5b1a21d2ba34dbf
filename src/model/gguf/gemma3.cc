// SPDX-License-Identifier: Apache-2.0
// Gemma 3, whose files do not say which layers have a window, nor how queries are scaled: by the size of a head, but in
// the largest model, of 62 layers, by hidden / heads.

#include "model/gguf/architecture.h"

namespace ashlar {
namespace {

void complete_gguf_gemma3(const GgufKeys& keys, const Checkpoint&, Json& config) {
  constexpr int64_t kLargestLayers = 62;
  constexpr GgufWord kWords[] = {{"attention.sliding_window", "sliding_window", false},
                                 {"attention.sliding_window_pattern", "sliding_window_pattern", false},
                                 {"rope.freq_base_swa", "rope_local_base_freq", false}};
  keys.translate(kWords, config);
  config["query_pre_attn_scalar"] = config["head_dim"];
  if (keys.fields().integer(keys.full("block_count"), 1, 1000) != kLargestLayers) return;
  const int64_t heads = keys.fields().integer(keys.full("attention.head_count"), 1, 4096);
  config["query_pre_attn_scalar"] = keys.fields().integer(keys.full("embedding_length"), 1, 1 << 20) / heads;
}

}  // namespace

const GgufArchitecture kGgufGemma3 = {
    .name = "gemma3", .family = "gemma3_text", .complete = complete_gguf_gemma3, .windows = true};

}  // namespace ashlar
