// SPDX-License-Identifier: Apache-2.0
#include "measure/synth/drafter_shapes.h"

#include <algorithm>

#include "base/error.h"

namespace ashlar {
namespace {

constexpr int32_t kBlock = 16;
constexpr int32_t kMask = 3;  // a token of its own of the tokenizer of bytes

// Evenly over the model's layers, as in published drafters: 1, 9, 17, 25 and 33 of 36.
std::vector<int32_t> spread_layers(int32_t layers) {
  constexpr int32_t kStates = 5;
  std::vector<int32_t> out;
  for (int32_t i = 0; i < std::min(kStates, layers); ++i) {
    out.push_back(layers < 2 * kStates ? i : 1 + i * (layers - 4) / (kStates - 1));
  }
  return out;
}

// After 1, half of them and all but 4, which EAGLE-3 reads; of a model too shallow for that the first ones.
std::vector<int32_t> three_layers(int32_t layers) {
  constexpr int32_t kStates = 3;
  if (layers >= 2 * kStates) return {1, layers / 2 - 1, layers - 4};
  std::vector<int32_t> out;
  for (int32_t i = 0; i < std::min(kStates, layers); ++i) out.push_back(i);
  return out;
}

// Where the model has other layers besides, those with attention; in any case heads that share keys and values.
// Published drafters of models with wide heads have as many numbers in narrower ones: of Qwen3.5-9B, whose own are 16
// and 4 of 256, 32 and 8 of 128.
AttentionShape heads_for(const StackConfig& stack) {
  constexpr int32_t kWide = 128;
  const auto attends = [](const LayerAttention& layer) { return layer.shape.n_heads > 0; };
  const auto found = std::ranges::find_if(stack.layers, attends);
  if (found == stack.layers.end()) throw Error("synth", "a model without attention has no drafter");
  AttentionShape shape = found->shape;
  if (shape.head_dim > kWide && shape.head_dim % kWide == 0) {
    shape.n_heads = shape.n_heads * shape.head_dim / kWide;
    shape.n_kv_heads = shape.n_kv_heads * shape.head_dim / kWide;
    shape.head_dim = kWide;
  }
  return shape;
}

Json layers_for(const ModelConfig& target, int32_t layers) {
  const StackConfig& stack = target.stack;
  const AttentionShape heads = heads_for(stack);
  const int32_t experts = stack.moe ? stack.moe->routing.top_k * stack.moe->intermediate : 0;
  return {{"hidden_size", stack.hidden},
          {"intermediate_size", stack.intermediate > 0 ? stack.intermediate : experts},
          {"num_hidden_layers", layers},
          {"num_attention_heads", heads.n_heads},
          {"num_key_value_heads", heads.n_kv_heads},
          {"head_dim", heads.head_dim},
          {"hidden_act", "silu"},
          {"rms_norm_eps", 1e-6},
          {"rope_theta", 1000000.0},
          {"vocab_size", target.vocab},
          {"max_position_embeddings", target.max_positions},
          {"attention_bias", false},
          {"tie_word_embeddings", target.tied_head}};
}

Json dflash(const ModelConfig& target, Json config) {
  config.update(
      {{"architectures", {"DFlashDraftModel"}},
       {"model_type", "qwen3"},
       {"block_size", kBlock},
       {"num_target_layers", target.stack.n_layers},
       {"dflash_config", {{"target_layer_ids", spread_layers(target.stack.n_layers)}, {"mask_token_id", kMask}}}});
  return config;
}

// Sizes of the published ones of Qwen3.8-27B and others.
Json dflash2(const ModelConfig& target, Json layers) {
  Json config = dflash(target, std::move(layers));
  config["architectures"] = {"DFlash2DraftModel"};
  config["dflash_config"].update(
      {{"conv_kernel_size", 2}, {"conv_group_size", 16}, {"selector_rank", 256}, {"selector_top_k", 16}});
  return config;
}

// The head is for as many tokens as those of SpecForge and others are.
Json eagle3(const ModelConfig& target, Json config) {
  constexpr int32_t kDraftVocabulary = 32000;
  config.update(
      {{"architectures", {"LlamaForCausalLMEagle3"}},
       {"model_type", "llama"},
       {"draft_vocab_size", std::min(kDraftVocabulary, target.vocab)},
       {"tie_word_embeddings", false},
       {"eagle_config",
        {{"use_aux_hidden_state", true}, {"eagle_aux_hidden_state_layer_ids", three_layers(target.stack.n_layers)}}}});
  return config;
}

struct Kind {
  const char* name;
  int32_t layers;
  Json (*config)(const ModelConfig& target, Json layers);
};

constexpr Kind kKinds[] = {{"dflash", 5, dflash}, {"dflash2", 5, dflash2}, {"eagle3", 1, eagle3}};

}  // namespace

std::vector<std::string> drafter_kinds() {
  std::vector<std::string> names;
  for (const Kind& kind : kKinds) names.emplace_back(kind.name);
  return names;
}

Json drafter_config_for(const std::string& kind, const ModelConfig& target, int32_t layers) {
  const auto* const known = std::ranges::find(kKinds, kind, &Kind::name);
  if (known == std::end(kKinds)) {
    std::string names;
    for (const Kind& one : kKinds) names += (names.empty() ? "" : ", ") + std::string(one.name);
    throw Error("synth", "unknown drafter \"" + for_message(kind) + "\"; expected " + names);
  }
  return known->config(target, layers_for(target, layers > 0 ? layers : known->layers));
}

}  // namespace ashlar
