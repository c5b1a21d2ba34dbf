// SPDX-License-Identifier: Apache-2.0
#pragma once
// Model families: how each spells what the shared decoder stack needs. A new one is a file next to this and a line in
// families.cc.

#include <string>

#include "model/config.h"

namespace ashlar {

struct Family {
  const char* model_type;  ///< as in config.json
  bool tied_by_default;    ///< what a missing tie_word_embeddings means
  /// Fills what is this family's own (norms, biases, windows) into a config whose shared parts are read already.
  void (*read)(const JsonFields& fields, ModelConfig& config);
  ConfigKeys keys = {};
  ModelNames names = {};
  LayerNames layer_names = {};
  SlidingLayers sliding = SlidingLayers::kNamed;
  int32_t missing_stop_id = -1;  ///< what a missing eos_token_id means; -1: none
  bool rotates_part = false;     ///< whether partial_rotary_factor is one of its settings
  /// The object of config.json that these settings stand in; null: they stand in the file itself. What concerns the
  /// whole checkpoint (tie_word_embeddings, eos_token_id) may stand in either.
  const char* settings = nullptr;
  const ModelNames* other_names = nullptr;  ///< ModelConfig::other_names
  /// The settings with what the family's files leave out, in the words that all families share; null: as they are.
  Json (*complete)(const JsonFields& fields, const Json& settings) = nullptr;
};

extern const Family kDreamFamily;
extern const Family kFastDllmFamily;
extern const Family kGemma3Family;
extern const Family kGemma3TextFamily;
extern const Family kGemma4Family;
extern const Family kGemma4TextFamily;
extern const Family kGlm4Family;
extern const Family kGlm4MoeFamily;
extern const Family kGptOssFamily;
extern const Family kGraniteFamily;
extern const Family kLfm2Family;
extern const Family kLfm2MoeFamily;
extern const Family kLlada2Family;
extern const Family kLlada2VeomniFamily;
extern const Family kLladaFamily;
extern const Family kLlamaFamily;
extern const Family kMinistral3Family;
extern const Family kMistral3Family;
extern const Family kMistralFamily;
extern const Family kOlmo2Family;
extern const Family kOlmo3Family;
extern const Family kPhi3Family;
extern const Family kQwen2Family;
extern const Family kQwen35Family;
extern const Family kQwen35MoeFamily;
extern const Family kQwen35MoeTextFamily;
extern const Family kQwen35TextFamily;
extern const Family kQwen3Family;
extern const Family kQwen3MoeFamily;
extern const Family kQwen3NextFamily;
extern const Family kSdarFamily;
extern const Family kSdarMoeFamily;
extern const Family kSmolLm3Family;

/// Names of a language model's tensors in a checkpoint that has a vision tower, which is not used: since transformers
/// 5, and before.
inline constexpr ModelNames kInsideVision = {.embedding = "model.language_model.embed_tokens",
                                             .layers = "model.language_model.layers.",
                                             .norm = "model.language_model.norm",
                                             .unused = {"model.vision_tower.", "model.multi_modal_projector."}};
inline constexpr ModelNames kNextToVision = {.embedding = "language_model.model.embed_tokens",
                                             .layers = "language_model.model.layers.",
                                             .norm = "language_model.model.norm",
                                             .head = "language_model.lm_head",
                                             .unused = {"vision_tower.", "multi_modal_projector."}};

/// What Qwen3's attention has of its own: norms of queries and keys, biases if asked for, a stated head size.
void read_qwen3_attention(const JsonFields& fields, StackConfig& stack);

/// Qwen3-MoE's experts, and which layers have them.
MoeConfig read_qwen3_moe(const JsonFields& fields, const StackConfig& stack);

/// LFM2's layers, its files' words for what all families have, and the names of its tensors.
void read_lfm2_layers(const JsonFields& fields, StackConfig& stack);
Json complete_lfm2(const JsonFields& fields, const Json& settings, const char* defaults);
extern const LayerNames kLfm2LayerNames;

/// Number of experts, how many a row takes, their width. The rest is up to the family.
struct ExpertKeys {
  const char* count = "num_experts";
  const char* chosen = "num_experts_per_tok";
};
MoeConfig read_expert_sizes(const JsonFields& fields, int32_t n_layers, const ExpertKeys& keys = {});

/// In which groups the experts lie, and how many of these a row takes.
void read_expert_groups(const JsonFields& fields, MoeConfig& moe);

/// `settings` and, for keys that the file lacks, what `defaults` says, an object in JSON.
Json with_defaults(const JsonFields& fields, const Json& settings, const char* defaults);

/// layer_types of `layers` layers of which each n-th, and no other, sees everything.
Json windows_but_each(int64_t n, int64_t layers);

/// Whether the file says a base of its rope, in either place.
bool says_rope_theta(const JsonFields& fields);

/// Of each layer whether layer_types names it `special`; the others must be full_attention.
std::vector<bool> read_layers_of_type(const JsonFields& fields, int32_t n_layers, const std::string& special);

/// Throws unless the switch `key`, or `fallback` where it is missing, is `expected`: the only value that is supported.
void require_switch(const JsonFields& fields, const char* key, bool fallback, bool expected);

/// Makes `config` a model that denoises blocks. config.json's block length (block_size or bd_size) and mask_token_id
/// count where it has them, those of `usual` where not. The vocabulary must be known already.
void read_diffusion(const JsonFields& fields, const BlockDiffusion& usual, ModelConfig& config);

/// nullptr if the name is unknown.
const Family* find_family(const std::string& model_type);
std::string family_names();

}  // namespace ashlar
