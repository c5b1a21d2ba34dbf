// SPDX-License-Identifier: Apache-2.0
// gpt-oss: every second layer has a window, beginning with the first. The frequencies of its rope are blended between
// numbers of dimensions that are not rounded, which no key says.

#include "model/gguf/architecture.h"

namespace ashlar {
namespace {

void complete_gguf_gpt_oss(const GgufKeys& keys, const Checkpoint&, Json& config) {
  if (keys.has("attention.sliding_window")) config["sliding_window"] = keys.raw("attention.sliding_window");
  Json& scaling = config["rope_scaling"];
  if (scaling.is_null()) scaling = {{"rope_type", "default"}};
  scaling["truncate"] = false;
}

constexpr LayerNames gguf_gpt_oss_names() {
  LayerNames names = kGgufLayerNames;
  names.post_norm = "post_attention_norm";
  names.sinks = "attn_sinks.weight";
  return names;
}

}  // namespace

const GgufArchitecture kGgufGptOss = {.name = "gpt-oss",
                                      .family = "gpt_oss",
                                      .names = gguf_gpt_oss_names(),
                                      .complete = complete_gguf_gpt_oss,
                                      .mixture = true,
                                      .windows = true};

}  // namespace ashlar
