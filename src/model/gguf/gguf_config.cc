// SPDX-License-Identifier: Apache-2.0
#include "model/gguf/gguf_config.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "base/check.h"
#include "base/error.h"
#include "io/weights/checkpoint.h"
#include "model/gguf/architecture.h"

namespace ashlar {
namespace {

constexpr ModelNames kGgufConfigNames = {.embedding = "token_embd",
                                         .layers = "blk.",
                                         .norm = "output_norm",
                                         .head = "output",
                                         .layer_embedding = "per_layer_token_embd",
                                         .layer_embedding_projection = "per_layer_model_proj",
                                         .layer_embedding_norm = "per_layer_proj_norm",
                                         .rope_factors = "rope_freqs.weight"};
constexpr const char* kEmbedding = "token_embd.weight";
constexpr const char* kHead = "output.weight";
constexpr GgufWord kMultipliers[] = {{"attention.scale", "attention_multiplier", false},
                                     {"embedding_scale", "embedding_multiplier", false},
                                     {"residual_scale", "residual_multiplier", false},
                                     {"logit_scale", "logits_scaling", false}};

const GgufArchitecture& architecture_of(const GgufFile& file) {
  const JsonFields fields(file.metadata(), file.path().string(), "gguf");
  constexpr const char* kKey = "general.architecture";
  const GgufArchitecture* const found = find_gguf_architecture(fields.string(kKey));
  if (found == nullptr) fields.fail(kKey, "one of " + gguf_architecture_names());
  return *found;
}

// How routers choose and weigh, where that is no word of the family's config.json.
void check_routing(const GgufKeys& keys, const GgufArchitecture& architecture) {
  constexpr const char* kGroups = "expert_group_count";
  if (!architecture.groups_experts && keys.number(kGroups, 0) > 1) {
    keys.fields().fail(keys.full(kGroups), "0 or 1 (this architecture has no groups of experts here)");
  }
  if (architecture.weighs_experts) return;
  constexpr const char* kScale = "expert_weights_scale";
  if (const double scale = keys.number(kScale, 0); scale != 0 && scale != 1) {
    keys.fields().fail(keys.full(kScale), "0 or 1 (this architecture has no such factor here)");
  }
  const std::string norm = keys.full("expert_weights_norm");
  if (!keys.fields().boolean(norm, true)) {
    keys.fields().fail(norm, "true (weights of experts add up to one in this architecture)");
  }
}

void check_fixed(const GgufKeys& keys, const GgufArchitecture& architecture) {
  check_fixed_words(keys, architecture.grows_queries);
  if (!architecture.softcap) keys.require("final_logit_softcapping", 0);
  const std::string causal = keys.full("attention.causal");
  if (keys.fields().boolean(causal, architecture.causal) != architecture.causal) {
    keys.fields().fail(causal, architecture.causal ? "true (models of this architecture read from left to right here)"
                                                   : "false (models of this architecture see the whole sequence)");
  }
  check_routing(keys, architecture);
  if (!architecture.shared_experts) keys.require("expert_shared_count", 0);
  if (!architecture.drafts) keys.require("nextn_predict_layers", 0);
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
    keys.fields().fail(keys.full("expert_count"), "nothing (this architecture has no experts here)");
  }
}

// Files of mixtures without a dense layer need not say the width of one.
void add_layer_words(const GgufKeys& keys, const GgufArchitecture& architecture, Json& config) {
  constexpr std::string_view kWidth = "feed_forward_length";
  for (GgufWord word : kGgufLayerWords) {
    const auto is_key = [&word](const char* key) { return key != nullptr && std::string_view(key) == word.key; };
    if (std::ranges::any_of(architecture.per_layer, is_key) && keys.has_list(word.key)) continue;
    if (architecture.mixture && word.key == kWidth) word.required = false;
    keys.translate({&word, 1}, config);
  }
  if (config.contains("intermediate_size") || keys.has_list("feed_forward_length")) return;
  config["intermediate_size"] = keys.raw("expert_feed_forward_length");
}

// llama.cpp's converter writes layers that draft with the model's own or, with --mtp, by themselves.
std::string text_of_layers_alone(const GgufKeys& keys, const GgufArchitecture& architecture,
                                 const Checkpoint& checkpoint) {
  const int64_t drafting = architecture.drafts ? drafting_layers(keys) : 0;
  if (drafting == 0) return {};
  const int64_t own = std::max<int64_t>(keys.fields().integer(keys.full("block_count"), 1, 1000) - drafting, 0);
  const std::string_view layers = kGgufConfigNames.layers;
  bool has_one = false;
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    if (!name.starts_with(layers)) continue;
    if (std::atoll(name.c_str() + layers.size()) < own) return {};
    has_one = true;
  }
  if (!has_one) return {};
  return checkpoint.folder().string() +
         " holds only what drafts for a model (MTP), without the layers of the model itself, whose file would have to "
         "have both; make one by llama.cpp's converter without --mtp and --no-mtp, or name the model's folder of "
         "safetensors; --drafter mtp drafts with it then";
}

Json config_words(const GgufKeys& keys, const GgufArchitecture& architecture, const Checkpoint& checkpoint) {
  Json config{{"model_type", architecture.family}, {"norm_topk_prob", true}, {"eos_token_id", nullptr}};
  add_layer_words(keys, architecture, config);
  check_fixed(keys, architecture);
  const int64_t drafting = architecture.drafts ? drafting_layers(keys) : 0;
  config["num_hidden_layers"] = keys.fields().integer(keys.full("block_count"), 1 + drafting, 1000) - drafting;
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

  const auto embedding = checkpoint.tensors().find(kEmbedding);
  if (embedding == checkpoint.tensors().end() || embedding->second->shape.size() != 2) {
    throw Error("gguf", checkpoint.folder().string() + ": has no embedding; expected a tensor " + kEmbedding +
                            " of two dimensions (is this the file of a language model?)");
  }
  config["vocab_size"] = embedding->second->shape[0];
  config["tie_word_embeddings"] = !checkpoint.tensors().contains(kHead);
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

std::string gguf_layers_alone(const std::filesystem::path& file) {
  const Checkpoint checkpoint(file);
  const GgufFile& first = checkpoint.gguf()->files().front();
  const GgufArchitecture& architecture = architecture_of(first);
  return text_of_layers_alone(GgufKeys(first, architecture.name), architecture, checkpoint);
}

ModelConfig read_gguf_config(const std::filesystem::path& file) {
  const Checkpoint checkpoint(file);
  const GgufFile& first = checkpoint.gguf()->files().front();
  const GgufArchitecture& architecture = architecture_of(first);
  const GgufKeys keys(first, architecture.name);
  if (const std::string alone = text_of_layers_alone(keys, architecture, checkpoint); !alone.empty()) {
    throw Error("gguf", alone);
  }
  const Json words = config_words(keys, architecture, checkpoint);
  ModelConfig config = read_config_json(words, file.string() + " (metadata in the words of config.json)");
  config.folder = file;
  config.names = kGgufConfigNames;
  config.names.norm = architecture.norm;
  StackConfig& stack = config.stack;
  stack.names = architecture.names;
  stack.norms_from_one = false;                // the converter has added it
  if (stack.moe) stack.moe->by_turns = false;  // and put gates and ups apart
  if (architecture.drafts && drafting_layers(keys) > 0) config.names.mtp = &kGgufMtp;
  if (architecture.long_rope) config.names.unused[0] = "rope_factors_";
  const auto has_bias = [&](const char* name) {
    return checkpoint.tensors().contains(std::string(kGgufConfigNames.layers) + "0." + name + ".bias");
  };
  stack.qkv_bias = has_bias(kGgufLayerNames.q);
  stack.output_bias = has_bias(kGgufLayerNames.attention_output);
  stack.mlp_bias = has_bias(kGgufLayerNames.up);
  if (architecture.own_factors) return config;
  use_rope_factors(keys, checkpoint, kGgufConfigNames.rope_factors, stack);
  return config;
}

}  // namespace ashlar
