// SPDX-License-Identifier: Apache-2.0
#include "model/drafters/gguf_drafter.h"

#include "base/error.h"
#include "model/gguf/gguf_keys.h"

namespace ashlar {
namespace {

constexpr const char* kMaskToken = "tokenizer.ggml.mask_token_id";
constexpr int64_t kMaxLayer = 1001;  // ids are one more than an index

struct Drafter {
  Drafter(const std::filesystem::path& path, const char* architecture)
      : checkpoint(path), keys(checkpoint.gguf()->files().front(), architecture) {}

  const StoredTensor* find(const std::string& name) const {
    const auto found = checkpoint.tensors().find(name);
    return found == checkpoint.tensors().end() ? nullptr : found->second;
  }
  // Of a tensor with such a dimension, counted from the first of [rows, cols]; 0: there is none.
  int64_t extent(const std::string& name, size_t dimension) const {
    const StoredTensor* tensor = find(name);
    return tensor != nullptr && dimension < tensor->shape.size() ? tensor->shape[dimension] : 0;
  }

  Checkpoint checkpoint;
  GgufKeys keys;
};

// Ids there count what enters a layer: they are one more than the index of the layer that leaves it.
Json target_layers(const GgufKeys& keys) {
  const std::string key = keys.full("target_layers");
  Json layers = Json::array();
  for (const int64_t id : keys.file().integers(key)) {
    if (id < 1 || id > kMaxLayer) {
      throw Error("gguf", keys.file().path().string() + ": \"" + key + "\": expected layers from 1 to " +
                              std::to_string(kMaxLayer) + ", found " + std::to_string(id));
    }
    layers.push_back(id - 1);
  }
  return layers;
}

// No key says it: the drafter's own embedding, codes of its head, or the tokenizer of the target, which files bring.
int64_t vocabulary(const Drafter& drafter) {
  const GgufKeys& keys = drafter.keys;
  if (keys.has("vocab_size")) return keys.fields().integer(keys.full("vocab_size"), 1, 1 << 24);
  for (const char* table : {"token_embd.weight", "markov_w1.weight", "selector_predecessor.weight"}) {
    if (const int64_t rows = drafter.extent(table, 0); rows > 0) return rows;
  }
  return static_cast<int64_t>(keys.file().strings("tokenizer.ggml.tokens").size());
}

// Refuses what no drafter here computes.
void check_fixed_shape(const GgufKeys& keys) {
  check_fixed_words(keys);
  for (const auto& [key, value] : {std::pair{"attention.scale", 0.0},
                                   {"attention.value_scale", 0.0},
                                   {"expert_count", 0.0},
                                   {"expert_shared_count", 0.0},
                                   {"hyper_connection.count", 0.0},
                                   {"rope.scaling.attn_factor", 1.0}}) {
    keys.require(key, value);
  }
  if (!keys.has("hidden_activation") || keys.fields().string(keys.full("hidden_activation")) == "silu") return;
  keys.fields().fail(keys.full("hidden_activation"), "silu");
}

// A rope by sections rotates as one where all of them but the first are empty, which is how drafters have it.
void check_sections(const Drafter& drafter, int64_t rotated) {
  const std::string key = drafter.keys.full("rope.dimension_sections");
  if (!drafter.keys.file().has_array(key)) return;
  const std::vector<int64_t> sections = drafter.keys.file().integers(key);
  int64_t others = 0;
  for (size_t i = 1; i < sections.size(); ++i) others |= sections[i];
  if (!sections.empty() && sections[0] == rotated / 2 && others == 0) return;
  throw Error("gguf", drafter.checkpoint.folder().string() + ": \"" + key + "\": expected " +
                          std::to_string(rotated / 2) + " and zeros: positions in text alone");
}

Json layer_words(const Drafter& drafter) {
  const GgufKeys& keys = drafter.keys;
  Json words = Json::object();
  keys.translate(kGgufLayerWords, words);
  check_fixed_shape(keys);
  const int64_t head_dim = add_attention_sizes(keys, words);
  const int64_t rotated = keys.fields().integer(keys.full("rope.dimension_count"), 0, 1 << 16, head_dim);
  if (head_dim > 0 && rotated != head_dim) {
    words["partial_rotary_factor"] = rotary_factor(static_cast<double>(rotated), static_cast<double>(head_dim));
  }
  check_sections(drafter, rotated);
  if (const Json scaling = gguf_rope_scaling(keys); !scaling.is_null()) words["rope_scaling"] = scaling;
  words["vocab_size"] = vocabulary(drafter);
  return words;
}

// Which layers have a window is said of each.
void add_windows(const GgufKeys& keys, Json& words) {
  if (keys.number("attention.sliding_window", 0) == 0) return;
  words["sliding_window"] = keys.raw("attention.sliding_window");
  words["use_sliding_window"] = true;
  Json& types = words["layer_types"] = Json::array();
  for (const bool slides : keys.file().booleans(keys.full("attention.sliding_window_pattern"))) {
    types.push_back(slides ? "sliding_attention" : "full_attention");
  }
}

}  // namespace

bool is_gguf_of(const std::filesystem::path& path, const std::string& architecture) {
  if (!is_gguf(path) || !file_exists(path)) return false;
  const GgufFile file = open_gguf_metadata(path);
  const Json& metadata = file.metadata();
  return metadata.contains("general.architecture") && metadata["general.architecture"] == architecture;
}

Json words_of_gguf_dflash(const std::filesystem::path& file) {
  const Drafter drafter(file, "dflash");
  const GgufKeys& keys = drafter.keys;
  Json words = layer_words(drafter);
  add_windows(keys, words);
  if (keys.has("attention.causal")) words["is_causal"] = keys.raw("attention.causal");
  Json own{{"mask_token_id", keys.fields().raw(kMaskToken)}, {"target_layer_ids", target_layers(keys)}};
  constexpr GgufWord kWords[] = {{"block_size", "block_size", true},
                                 {"conv_kernel_size", "conv_kernel_size", false},
                                 {"conv_group_size", "conv_group_size", false},
                                 {"selector_rank", "selector_rank", false},
                                 {"selector_top_k", "selector_top_k", false},
                                 {"sample_from_anchor", "sample_from_anchor", false},
                                 {"embedding_scale", "input_embedding_scale", false},
                                 {"logit_scale", "output_multiplier", false},
                                 {"final_logit_softcapping", "final_logit_softcapping", false}};
  keys.translate(kWords, own);
  // Heads are known by their tensors.
  if (drafter.find("selector_hidden.weight") != nullptr) own["projector_type"] = "dflash2";
  if (drafter.find("markov_w1.weight") != nullptr) {
    const bool confidence = drafter.find("conf_proj.weight") != nullptr;
    own["projector_type"] = "dspark";
    own["markov_rank"] = drafter.extent("markov_w1.weight", 1);
    own["markov_head_type"] = "vanilla";
    own["enable_confidence_head"] = own["confidence_head_with_markov"] = confidence;
  }
  if (const int64_t part = drafter.extent("d2t", 0); part > 0) own["draft_vocab_size"] = part;
  words["dflash_config"] = own;
  return words;
}

Json words_of_gguf_eagle3(const std::filesystem::path& file) {
  const Drafter drafter(file, "eagle3");
  const GgufKeys& keys = drafter.keys;
  Json words = layer_words(drafter);
  constexpr GgufWord kWords[] = {{"target_hidden_size", "target_hidden_size", true},
                                 {"norm_before_residual", "norm_before_residual", false},
                                 {"norm_before_fc", "norm_before_fc", false}};
  keys.translate(kWords, words);
  if (const int64_t part = drafter.extent("d2t", 0); part > 0) words["draft_vocab_size"] = part;
  words["eagle_config"] = {{"eagle_aux_hidden_state_layer_ids", target_layers(keys)}};
  return words;
}

DrafterNames names_of_gguf_drafter() {
  return {.projection = "fc",
          .feature_norm = "enc.output_norm",
          .aux_norm = "enc.output_norm",
          .layers = "blk.",
          .pair_norm = "attn_norm_2",
          .norm = "output_norm",
          .embedding = "token_embd",
          .head = "output",
          .selector_projection = "selector_hidden",
          .selector_predecessors = "selector_predecessor",
          .selector_successors = "selector_successor",
          .markov_codes = "markov_w1",
          .markov_outputs = "markov_w2",
          .confidence = "conf_proj",
          .rope_factors = "rope_freqs.weight",
          .target_ids = true};
}

}  // namespace ashlar
