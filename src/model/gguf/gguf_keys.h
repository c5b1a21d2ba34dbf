// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the metadata of GGUF models and of drafters have in common: keys in the words of config.json, and llama.cpp's
// names of a layer's tensors. Source: the Python package gguf (constants.py, tensor_mapping.py).

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/weights/checkpoint.h"
#include "model/binding/tensor_names.h"
#include "model/config.h"

namespace ashlar {

inline constexpr LayerNames kGgufLayerNames = {.input_norm = "attn_norm",
                                               .post_norm = "ffn_norm",
                                               .mixer_output_norm = "post_attention_norm",
                                               .mlp_output_norm = "post_ffw_norm",
                                               .q = "attn_q",
                                               .k = "attn_k",
                                               .v = "attn_v",
                                               .q_norm = "attn_q_norm",
                                               .k_norm = "attn_k_norm",
                                               .attention_output = "attn_output",
                                               .gate = "ffn_gate",
                                               .up = "ffn_up",
                                               .down = "ffn_down",
                                               .router = "ffn_gate_inp",
                                               .merged_gate = "ffn_gate_exps.weight",
                                               .merged_up = "ffn_up_exps.weight",
                                               .merged_down = "ffn_down_exps.weight",
                                               .merged_gate_up = "ffn_gate_up_exps.weight",
                                               .mixer_conv_base = "attn_conv_base",
                                               .mixer_conv_kernel = "attn_conv_proj",
                                               .mlp_conv_base = "ffn_conv_base",
                                               .mlp_conv_kernel = "ffn_conv_proj"};

struct GgufWord {
  const char* key;   ///< after "ARCHITECTURE."
  const char* word;  ///< of config.json
  bool required;
};

/// Those of every stack of layers.
inline constexpr GgufWord kGgufLayerWords[] = {
    {"embedding_length", "hidden_size", true},
    {"feed_forward_length", "intermediate_size", true},
    {"block_count", "num_hidden_layers", true},
    {"context_length", "max_position_embeddings", true},
    {"attention.head_count", "num_attention_heads", true},
    {"attention.head_count_kv", "num_key_value_heads", false},
    {"attention.key_length", "head_dim", false},
    {"attention.layer_norm_rms_epsilon", "rms_norm_eps", true},
    {"rope.freq_base", "rope_theta", false},
    {"expert_count", "num_experts", false},
    {"expert_used_count", "num_experts_per_tok", false},
    {"expert_feed_forward_length", "moe_intermediate_size", false},
};

/// The metadata of one architecture.
class GgufKeys {
 public:
  /// `file` must outlive this.
  GgufKeys(const GgufFile& file, const std::string& architecture);

  const GgufFile& file() const { return file_; }
  const JsonFields& fields() const { return fields_; }
  /// "ARCHITECTURE.KEY".
  std::string full(const char* key) const { return prefix_ + key; }
  /// Whether the key has one value. Throws Error("gguf", ...) where it has an array, one for each layer.
  bool has(const char* key) const;
  /// Whether the key has an array.
  bool has_list(const char* key) const { return file_.has_array(full(key)); }
  /// The array of a key, or its one value, or `missing`, for each of the block_count layers. Throws Error("gguf", ...)
  /// unless these are as many values, from `low` to `high`.
  std::vector<int64_t> for_layers(const char* key, int64_t low, int64_t high,
                                  std::optional<int64_t> missing = {}) const;
  /// The same of an array of booleans.
  std::vector<bool> flags_for_layers(const char* key) const;
  /// Throws Error("gguf", ...) for an array that is not as it is `expected`.
  [[noreturn]] void refuse_list(const char* key, const std::string& expected) const;
  const Json& raw(const char* key) const { return fields_.raw(full(key)); }
  double number(const char* key, double fallback) const {
    return has(key) ? fields_.number(full(key), -1e30, 1e30) : fallback;
  }
  /// Throws Error("gguf", ...) where the key is there with another value, which would change what layers compute.
  void require(const char* key, double value) const;
  /// Adds what is there of `words` to `config`; throws where one that is required is not.
  void translate(std::span<const GgufWord> words, Json& config) const;

 private:
  /// Throws unless an array of a value for each layer has as many.
  void check_layers(const char* key, size_t found) const;

  const GgufFile& file_;
  JsonFields fields_;
  std::string prefix_;
};

/// Adds what follows from other sizes where the file does not say it, nor for each layer: heads of keys and the size of
/// a head, which this returns; 0: it is no integer, which the reader of `config` will say.
int64_t add_attention_sizes(const GgufKeys& keys, Json& config);

/// The factor of a head of which the first `rotated` elements are: as small as gives that number of whole elements.
double rotary_factor(double rotated, double head_dim);

/// The value of layer_types of `layers` layers of which some have a window: those that the file names, or all but each
/// n-th, of the file's n or of `usual`.
Json gguf_window_types(const GgufKeys& keys, int64_t layers, int64_t usual);

/// The value of rope_scaling, in the new spelling or as a factor by itself; null: none, or the factors of `long_rope`,
/// which are tensors.
Json gguf_rope_scaling(const GgufKeys& keys, bool long_rope = false);

/// Refuses keys that change what layers do, unless they have the only value that is supported; `grows_queries`: those
/// of architectures whose queries grow with the position may have any. Throws Error("gguf", ...).
void check_fixed_words(const GgufKeys& keys, bool grows_queries = false);

/// Whether there is a tensor NAME.weight of the layer.
bool has_layer_weight(const Checkpoint& checkpoint, int64_t layer, const char* name);

/// The numbers of a tensor of `count` factors of a rope, F32. Throws Error("gguf", ...) for one of another kind.
std::vector<float> read_rope_factors(const StoredTensor& tensor, int64_t count);

/// Gives every layer the factors of the tensor `name` (F32, one a frequency), if there is one: what llama.cpp's
/// converter makes of the scaling of Llama 3. Throws Error("gguf", ...) for other tensors, and next to another scaling.
void use_rope_factors(const GgufKeys& keys, const Checkpoint& checkpoint, const char* name, StackConfig& stack);

}  // namespace ashlar
