// SPDX-License-Identifier: Apache-2.0
#include "model/gguf_config.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"
#include "base/error.h"
#include "io/weights/checkpoint.h"
#include "model/gguf_keys.h"

namespace ashlar {
namespace {

// llama.cpp rotates adjacent dimensions in some models, and their converter reorders rows to suit, or leaves them so.
constexpr LayerNames interleaved(LayerNames names = kGgufLayerNames) {
  names.interleaved_heads = true;
  return names;
}
// Gates, then ups, in one tensor, which is called as ups are elsewhere.
constexpr LayerNames fused_gate_up(LayerNames names = kGgufLayerNames) {
  names.fused_gate_up = names.up;
  return names;
}
constexpr LayerNames phi3_names() {
  LayerNames names = fused_gate_up();
  names.fused_qkv = "attn_qkv";
  return names;
}
constexpr LayerNames gpt_oss_names() {
  LayerNames names = kGgufLayerNames;
  names.post_norm = "post_attention_norm";
  names.sinks = "attn_sinks.weight";
  return names;
}

/// Adds to the words of config.json what only this architecture says, or refuses it.
using Complete = void (*)(const GgufKeys& keys, const Checkpoint& checkpoint, Json& config);
void complete_gemma3(const GgufKeys& keys, const Checkpoint& checkpoint, Json& config);
void complete_glm4(const GgufKeys& keys, const Checkpoint& checkpoint, Json& config);
void complete_gpt_oss(const GgufKeys& keys, const Checkpoint& checkpoint, Json& config);
void complete_phi3(const GgufKeys& keys, const Checkpoint& checkpoint, Json& config);

struct Architecture {
  const char* name;    ///< general.architecture
  const char* family;  ///< model_type of config.json
  LayerNames names = kGgufLayerNames;
  Complete complete = nullptr;
  bool mixture = false;
  bool windows = false;       ///< some of its layers have one
  bool multipliers = false;   ///< it has those of Granite
  bool rotates_part = false;  ///< of each head
  bool long_rope = false;     ///< it may have two sets of factors (LongRoPE)
};

constexpr Architecture kArchitectures[] = {
    {.name = "llama", .family = "llama", .names = interleaved()},
    {.name = "qwen2", .family = "qwen2"},
    {.name = "qwen3", .family = "qwen3"},
    {.name = "qwen3moe", .family = "qwen3_moe", .mixture = true},
    {.name = "gemma3", .family = "gemma3_text", .complete = complete_gemma3, .windows = true},
    {.name = "smollm3", .family = "smollm3", .names = interleaved()},
    {.name = "olmo2", .family = "olmo2"},
    {.name = "granite", .family = "granite", .names = interleaved(), .multipliers = true},
    {.name = "glm4",
     .family = "glm4",
     .names = interleaved(fused_gate_up()),
     .complete = complete_glm4,
     .rotates_part = true},
    {.name = "phi3",
     .family = "phi3",
     .names = phi3_names(),
     .complete = complete_phi3,
     .windows = true,
     .rotates_part = true,
     .long_rope = true},
    {.name = "gpt-oss",
     .family = "gpt_oss",
     .names = gpt_oss_names(),
     .complete = complete_gpt_oss,
     .mixture = true,
     .windows = true},
};

constexpr ModelNames kNames = {.embedding = "token_embd",
                               .layers = "blk.",
                               .norm = "output_norm",
                               .head = "output",
                               .rope_factors = "rope_freqs.weight"};
constexpr GgufWord kMultipliers[] = {{"attention.scale", "attention_multiplier", false},
                                     {"embedding_scale", "embedding_multiplier", false},
                                     {"residual_scale", "residual_multiplier", false},
                                     {"logit_scale", "logits_scaling", false}};

const Architecture& architecture_of(const GgufFile& file) {
  const JsonFields fields(file.metadata(), file.path().string(), "gguf");
  const std::string name = fields.string("general.architecture");
  const auto* found = std::find_if(std::begin(kArchitectures), std::end(kArchitectures),
                                   [&name](const Architecture& known) { return name == known.name; });
  if (found != std::end(kArchitectures)) return *found;
  std::string names;
  for (const Architecture& known : kArchitectures) names += (names.empty() ? "" : ", ") + std::string(known.name);
  fields.fail("general.architecture", "one of " + names);
}

void check_fixed(const GgufKeys& keys, const Architecture& architecture) {
  check_fixed_words(keys);
  keys.require("final_logit_softcapping", 0);
  if (!architecture.long_rope) keys.require("rope.scaling.attn_factor", 1);
  for (const GgufWord& multiplier : kMultipliers) {
    if (!architecture.multipliers) keys.require(multiplier.key, 0);
  }
  // Of files with multipliers it says whether there is a rope at all.
  if (architecture.multipliers && !keys.fields().boolean(keys.full("rope.scaling.finetuned"), true)) {
    keys.fields().fail(keys.full("rope.scaling.finetuned"), "true (layers without a rope are not supported)");
  }
  if (!architecture.windows && keys.number("attention.sliding_window", 0) != 0) {
    keys.fields().fail(keys.full("attention.sliding_window"), "nothing (this architecture has no windows here)");
  }
  // Other mixtures of experts go by the name of dense models there.
  if (!architecture.mixture && keys.number("expert_count", 0) != 0) {
    keys.fields().fail(keys.full("expert_count"), "nothing (only qwen3moe and gpt-oss have experts here)");
  }
}

// Of Gemma 3, whose files do not say which layers have a window, nor how queries are scaled: by the size of a head, but
// in the largest model, of 62 layers, by hidden / heads.
void complete_gemma3(const GgufKeys& keys, const Checkpoint&, Json& config) {
  constexpr int64_t kLargestLayers = 62;
  constexpr std::pair<const char*, const char*> kOptional[] = {
      {"attention.sliding_window", "sliding_window"},
      {"attention.sliding_window_pattern", "sliding_window_pattern"},
      {"rope.freq_base_swa", "rope_local_base_freq"}};
  for (const auto& [key, word] : kOptional) {
    if (keys.has(key)) config[word] = keys.raw(key);
  }
  config["query_pre_attn_scalar"] = config["head_dim"];
  if (keys.fields().integer(keys.full("block_count"), 1, 1000) != kLargestLayers) return;
  const int64_t heads = keys.fields().integer(keys.full("attention.head_count"), 1, 4096);
  config["query_pre_attn_scalar"] = keys.fields().integer(keys.full("embedding_length"), 1, 1 << 20) / heads;
}

void complete_glm4(const GgufKeys& keys, const Checkpoint&, Json&) {
  keys.require("nextn_predict_layers", 0);
  const std::string sections = keys.full("rope.dimension_sections");
  if (!keys.file().has_array(sections)) return;
  throw Error("gguf", keys.file().path().string() + ": \"" + sections +
                          "\": expected nothing (models that see rotate by sections, and are not supported)");
}

// Every second layer has a window, beginning with the first. The frequencies of its rope are blended between numbers of
// dimensions that are not rounded, which no key says.
void complete_gpt_oss(const GgufKeys& keys, const Checkpoint&, Json& config) {
  if (keys.has("attention.sliding_window")) config["sliding_window"] = keys.raw("attention.sliding_window");
  Json& scaling = config["rope_scaling"];
  if (scaling.is_null()) scaling = {{"rope_type", "default"}};
  scaling["truncate"] = false;
}

// The window is 0 where there is none. Both sets of factors of LongRoPE are tensors.
void complete_phi3(const GgufKeys& keys, const Checkpoint& checkpoint, Json& config) {
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

Json config_words(const GgufKeys& keys, const Architecture& architecture, const Checkpoint& checkpoint) {
  Json config{{"model_type", architecture.family}, {"norm_topk_prob", true}, {"eos_token_id", nullptr}};
  keys.translate(kGgufLayerWords, config);
  check_fixed(keys, architecture);
  for (const auto& [key, word, required] : kMultipliers) {
    if (architecture.multipliers && keys.number(key, 0) != 0) config[word] = keys.raw(key);
  }
  const int64_t head_dim = add_attention_sizes(keys, config);
  constexpr const char* kRotated = "rope.dimension_count";
  const auto whole = static_cast<double>(head_dim);
  for (const char* key : {"attention.value_length", kRotated}) {
    if (head_dim == 0 || keys.number(key, whole) == whole) continue;
    if (architecture.rotates_part && key == kRotated) {
      config["partial_rotary_factor"] = rotary_factor(keys.number(key, whole), whole);
    } else {
      keys.fields().fail(keys.full(key), std::to_string(head_dim) + ", the size of a head");
    }
  }
  if (const Json scaling = gguf_rope_scaling(keys, architecture.long_rope); !scaling.is_null())
    config["rope_scaling"] = scaling;
  if (architecture.complete != nullptr) architecture.complete(keys, checkpoint, config);

  const auto embedding = checkpoint.tensors().find(std::string(kNames.embedding) + ".weight");
  if (embedding == checkpoint.tensors().end() || embedding->second->shape.size() != 2) {
    throw Error("gguf", checkpoint.folder().string() +
                            ": has no embedding; expected a tensor token_embd.weight of two "
                            "dimensions (is this the file of a language model?)");
  }
  config["vocab_size"] = embedding->second->shape[0];
  config["tie_word_embeddings"] = !checkpoint.tensors().contains(std::string(kNames.head) + ".weight");
  Json stops = Json::array();
  for (const char* key :
       {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
    if (!keys.fields().has(key)) continue;
    const Json& id = keys.fields().raw(key);
    if (std::find(stops.begin(), stops.end(), id) == stops.end()) stops.push_back(id);
  }
  if (!stops.empty()) config["eos_token_id"] = stops;
  return config;
}

}  // namespace

ModelConfig read_gguf_config(const std::filesystem::path& file) {
  const Checkpoint checkpoint(file);
  const GgufFile& first = checkpoint.gguf()->files().front();
  const Architecture& architecture = architecture_of(first);
  const GgufKeys keys(first, architecture.name);
  const Json words = config_words(keys, architecture, checkpoint);
  ModelConfig config = read_config_json(words, file.string() + " (metadata in the words of config.json)");
  config.folder = file;
  config.names = kNames;
  StackConfig& stack = config.stack;
  stack.names = architecture.names;
  stack.norms_from_one = false;                // the converter has added it
  if (stack.moe) stack.moe->by_turns = false;  // and put gates and ups apart
  if (architecture.long_rope) config.names.unused[0] = "rope_factors_";
  const auto has_bias = [&](const char* name) {
    return checkpoint.tensors().contains(std::string(kNames.layers) + "0." + name + ".bias");
  };
  stack.qkv_bias = has_bias(kGgufLayerNames.q);
  stack.output_bias = has_bias(kGgufLayerNames.attention_output);
  stack.mlp_bias = has_bias(kGgufLayerNames.up);
  use_rope_factors(keys, checkpoint, kNames.rope_factors, stack);
  return config;
}

}  // namespace ashlar
