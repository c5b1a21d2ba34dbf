// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "model/gguf/architecture.h"

namespace ashlar {
namespace {

constexpr GgufArchitecture kLlama = {.name = "llama", .family = "llama", .names = interleaved()};
constexpr GgufArchitecture kQwen2 = {.name = "qwen2", .family = "qwen2"};
constexpr GgufArchitecture kQwen3 = {.name = "qwen3", .family = "qwen3"};
constexpr GgufArchitecture kQwen3Moe = {.name = "qwen3moe", .family = "qwen3_moe", .mixture = true};
constexpr GgufArchitecture kSmolLm3 = {.name = "smollm3", .family = "smollm3", .names = interleaved()};
constexpr GgufArchitecture kGranite = {
    .name = "granite", .family = "granite", .names = interleaved(), .multipliers = true};

const std::array kArchitectures = {
    &kLlama,       &kQwen2,      &kQwen3,    &kQwen3Moe,    &kGgufGemma3, &kSmolLm3,       &kGgufOlmo2,
    &kGranite,     &kGgufGlm4,   &kGgufPhi3, &kGgufGptOss,  &kGgufQwen35, &kGgufQwen35Moe, &kGgufQwen3Next,
    &kGgufGlm4Moe, &kGgufGemma4, &kGgufLfm2, &kGgufLfm2Moe, &kGgufDream,  &kGgufLlada,     &kGgufMistral3};

}  // namespace

int64_t drafting_layers(const GgufKeys& keys) {
  constexpr const char* kLayers = "nextn_predict_layers";
  return keys.has(kLayers) ? keys.fields().integer(keys.full(kLayers), 0, 100) : 0;
}

void require_gating(const GgufKeys& keys, GgufGating gating) {
  keys.require("expert_gating_func", static_cast<double>(gating));
}

const GgufArchitecture* find_gguf_architecture(const std::string& name) {
  for (const GgufArchitecture* known : kArchitectures) {
    if (name == known->name) return known;
  }
  return nullptr;
}

std::string gguf_architecture_names() {
  std::string names;
  for (const GgufArchitecture* known : kArchitectures) names += (names.empty() ? "" : ", ") + std::string(known->name);
  return names;
}

}  // namespace ashlar
