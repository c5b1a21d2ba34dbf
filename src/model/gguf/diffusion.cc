// SPDX-License-Identifier: Apache-2.0
// Dream and LLaDA, which denoise the whole sequence.

#include <utility>

#include "model/gguf/architecture.h"

namespace ashlar {
namespace {

// `shifts`: whether logits are those of the next position, which the model's class knows.
void complete_gguf_diffusion(const GgufKeys& keys, bool shifts, Json& config) {
  constexpr const char* kMask = "tokenizer.ggml.mask_token_id";
  if (keys.fields().has(kMask)) config["mask_token_id"] = keys.fields().raw(kMask);
  constexpr const char* kShift = "diffusion.shift_logits";
  if (keys.fields().boolean(kShift, shifts) == shifts) return;
  keys.fields().fail(kShift, std::string(shifts ? "true" : "false") + ", as in every model of the architecture");
}

void complete_dream(const GgufKeys& keys, const Checkpoint&, Json& config) {
  complete_gguf_diffusion(keys, true, config);
}

// Its config.json spells nearly everything its own way.
void complete_llada(const GgufKeys& keys, const Checkpoint& checkpoint, Json& config) {
  complete_gguf_diffusion(keys, false, config);
  constexpr std::pair<const char*, const char*> kWords[] = {{"hidden_size", "d_model"},
                                                            {"intermediate_size", "mlp_hidden_size"},
                                                            {"num_hidden_layers", "n_layers"},
                                                            {"num_attention_heads", "n_heads"},
                                                            {"num_key_value_heads", "n_kv_heads"},
                                                            {"max_position_embeddings", "max_sequence_length"}};
  for (const auto& [shared, own] : kWords) config[own] = config[shared];
  config["weight_tying"] = !checkpoint.tensors().contains("output.weight");
}

}  // namespace

const GgufArchitecture kGgufDream = {.name = "dream", .family = "Dream", .complete = complete_dream, .causal = false};
const GgufArchitecture kGgufLlada = {
    .name = "llada", .family = "llada", .names = interleaved(), .complete = complete_llada, .causal = false};

}  // namespace ashlar
