// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a model is, read from config.json: only what the forward needs, in one spelling.

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "device/delta_net.h"
#include "device/ops.h"
#include "device/routing.h"
#include "device/rows.h"
#include "device/short_conv.h"
#include "io/json.h"
#include "model/binding/tensor_names.h"

namespace ashlar {

struct RopeConfig {
  enum class Scaling : uint8_t { kNone, kLinear, kLlama3, kYarn, kFactors, kProportional };
  Scaling scaling = Scaling::kNone;
  double theta = 10000.0;
  double factor = 1.0;
  double low_freq_factor = 1.0;         ///< llama3
  double high_freq_factor = 4.0;        ///< llama3
  double beta_fast = 32.0;              ///< yarn
  double beta_slow = 1.0;               ///< yarn
  double attention_factor = 0.0;        ///< yarn and kFactors; 0: derived from the factor, or 1
  bool truncate = true;                 ///< yarn: whole dimensions as ramp borders
  double original_max_positions = 0.0;  ///< llama3 and yarn
  /// What is rotated of each head; 0: nothing. kProportional: of the frequencies of a whole head, those that turn; the
  /// other pairs stand still, but pairs are those of the whole head.
  double partial_rotary_factor = 1.0;
  std::vector<float> factors;  ///< kFactors: what each frequency is divided by
  /// Queries at position p are multiplied by 1 + query_growth * log(1 + floor(p / original_max_positions)).
  double query_growth = 0.0;

  int32_t rotary_dim(int32_t head_dim) const {
    return scaling == Scaling::kProportional ? head_dim : static_cast<int32_t>(head_dim * partial_rotary_factor);
  }
  bool operator==(const RopeConfig&) const = default;
};

/// The attention of one layer: its geometry, its rope, and how rows see their own sequence.
struct LayerAttention {
  AttentionShape shape;
  RopeConfig rope;
  int32_t window = 0;            ///< 0: everything; otherwise keys with |query - key| < window
  bool causal = true;            ///< false: rows see the whole block they are part of
  bool values_are_keys = false;  ///< values are what keys are before their norm and rope
  int32_t kv_of = -1;            ///< the earlier layer whose keys and values it reads; -1: it has its own

  bool sees_as(const LayerAttention& other) const { return window == other.window && causal == other.causal; }
  bool operator==(const LayerAttention&) const = default;
};

/// Layers whose gated MLP is a mixture of experts.
struct MoeConfig {
  std::vector<bool> layers;  ///< one per layer: a mixture, or the dense MLP
  int32_t n_experts = 0;
  int32_t intermediate = 0;         ///< width of an expert
  int32_t shared_intermediate = 0;  ///< width of the expert that every row goes through, unweighted; 0: there is none
  bool shared_gate = false;         ///< what the shared expert adds is multiplied by a sigmoid of the row
  bool expert_bias = false;
  bool router_bias = false;
  bool with_dense = false;  ///< these layers have the dense MLP as well, and each has norms of its own
  bool biases = false;      ///< of the experts' products: NAME_bias of a merged tensor NAME, NAME.bias of NAME.weight
  /// Rows of merged gates and ups are a gate and an up by turns; merged tensors that are not quantised lie [experts,
  /// in, out].
  bool by_turns = false;
  ExpertGate gate;
  Routing routing;

  /// Whether what experts answer is added up apart from the rest of the layer.
  bool adds_apart() const { return shared_gate || with_dense; }
};

/// Layers that are gated delta nets.
struct DeltaNetConfig {
  std::vector<bool> layers;  ///< one per layer: a gated delta net, or attention
  DeltaShape shape;
};

/// Layers that are gated short convolutions.
struct ShortConvConfig {
  std::vector<bool> layers;  ///< one per layer: a convolution, or attention
  ShortConvShape shape;
  bool bias = false;  ///< of the convolution and both projections
};

/// An embedding of its own for each layer, which a row's token and its embedding make together.
struct LayerEmbeddingConfig {
  int32_t width = 0;
  int32_t vocab = 0;  ///< ids of its table; at least the model's
};

/// What the gates of a dense MLP go through; kGelu: as Ops::gelu_gate has it.
enum class Activation : uint8_t { kSilu, kGelu };

/// Convolutions over the rows of a block, around both sublayers of every layer.
struct BlockConvConfig {
  int32_t taps = 0;
  int32_t group = 0;  ///< channels that share weights of the row's own; divides the hidden size
};

/// A stack of decoder layers with rotary grouped-query attention, a gated delta net or a gated short
/// convolution, and a gated MLP.
struct StackConfig {
  int32_t hidden = 0;
  int32_t intermediate = 0;
  int32_t n_layers = 0;
  float norm_eps = 1e-6F;
  bool input_norms = true;  ///< what enters mixer and MLP is normed
  bool qk_norm = false;
  bool wide_qk_norm = false;  ///< qk_norm is of all heads of a row together instead of each by itself
  bool qkv_bias = false;
  bool output_bias = false;
  bool mlp_bias = false;
  bool sinks = false;           ///< heads of attention have a score without a value each
  bool output_gate = false;     ///< what attention answers is multiplied by a gate that q's projection has, too
  bool output_norms = false;    ///< what mixer and MLP answer is normed before it is added to the residual
  float residual_scale = 1.0F;  ///< multiplies what mixer and MLP answer, as it is added to the residual
  Activation activation = Activation::kSilu;
  bool norms_from_one = false;         ///< norms are stored as what they have more than one
  bool value_norm = false;             ///< values are normed head by head, without a weight
  bool layer_scale = false;            ///< what leaves a layer is multiplied by a number of the layer
  std::vector<int32_t> mlp_widths;     ///< one per layer; empty: `intermediate` in all
  std::vector<LayerAttention> layers;  ///< one per layer
  std::optional<DeltaNetConfig> delta_net;
  std::optional<ShortConvConfig> short_conv;
  std::optional<MoeConfig> moe;
  std::optional<BlockConvConfig> block_conv;
  std::optional<LayerEmbeddingConfig> layer_embedding;

  /// Width of the dense MLP of layer i, and of the widest.
  int32_t mlp_width(int32_t layer) const {
    return mlp_widths.empty() ? intermediate : mlp_widths[static_cast<size_t>(layer)];
  }
  int32_t widest_mlp() const {
    return mlp_widths.empty() ? intermediate : *std::max_element(mlp_widths.begin(), mlp_widths.end());
  }
  /// Whether more becomes of what mixer and MLP answer than that it is added to the residual.
  bool answers_apart() const { return output_norms || residual_scale != 1.0F; }
  /// Whether layer i is a gated delta net.
  bool is_delta_net(int32_t layer) const { return delta_net && delta_net->layers[static_cast<size_t>(layer)]; }
  bool is_short_conv(int32_t layer) const { return short_conv && short_conv->layers[static_cast<size_t>(layer)]; }
  bool is_attention(int32_t layer) const { return !is_delta_net(layer) && !is_short_conv(layer); }
  LayerNames names;
};

/// How a model that generates by denoising blocks reads a sequence. Its layers are not causal: a row sees what its
/// block sees, and where blocks end is up to the decoder.
struct BlockDiffusion {
  int32_t block_size = 0;   ///< positions of a block, counted from position 0; 0: the whole sequence is one block
  int32_t mask_id = -1;     ///< stands at positions that are not filled yet
  int32_t token_shift = 0;  ///< logits row i predicts the token at position i + token_shift
  int32_t sub_block = 0;    ///< positions of a block that are filled before later ones; 0: in any order
};

/// What a config.json says of the layers that draft further tokens (ModelNames::mtp). Whether the checkpoint has them
/// is for its tensors to say.
struct MtpConfig {
  int32_t layers = 1;
  const char* layers_key = "mtp_num_hidden_layers";  ///< which said so
  bool own_vocabulary = false;                       ///< an embedding and a head of its own instead of the model's
};

struct ModelConfig {
  std::string family;  ///< config.json's model_type
  StackConfig stack;
  int32_t vocab = 0;
  int32_t max_positions = 0;  ///< longest sequence, with what linear and yarn scaling add to the length of training
  bool tied_head = false;
  float embedding_scale = 1.0F;             ///< what embeddings are multiplied by
  float logit_scale = 1.0F;                 ///< what logits are multiplied by
  float logit_softcap = 0.0F;               ///< logits become softcap * tanh(logits / softcap); 0: they do not
  std::optional<BlockDiffusion> diffusion;  ///< none: an autoregressive model
  MtpConfig mtp;
  std::vector<int32_t> stop_ids;  ///< end-of-sequence ids, from generation_config.json if it has any
  ModelNames names;
  std::optional<ModelNames> other_names;  ///< what some checkpoints of the family call their tensors instead
  std::filesystem::path folder;           ///< or the GGUF file

  /// What names of the tensors of the layer that drafts begin with, the first of several; empty: the family has none.
  std::string mtp_prefix() const;
  /// The same of all such layers.
  std::vector<std::string> mtp_prefixes() const;
  /// Whether the model has no use for the tensor: it is of another part, or of a layer that drafts.
  bool is_unused(std::string_view tensor) const;
};

/// How a config.json spells the parts that all families have.
struct ConfigKeys {
  const char* hidden = "hidden_size";
  const char* intermediate = "intermediate_size";
  const char* layers = "num_hidden_layers";
  const char* heads = "num_attention_heads";
  const char* kv_heads = "num_key_value_heads";
  const char* activation = "hidden_act";
  const char* vocab = "vocab_size";
  const char* max_positions = "max_position_embeddings";
  const char* tied_head = "tie_word_embeddings";
  int32_t missing_kv_heads = 0;        ///< what a missing kv_heads means; 0: as many as heads, as where it is null
  int32_t missing_head_dim = 0;        ///< what a missing head_dim means; 0: hidden / heads
  bool gelu = false;                   ///< the activation is GELU, in place of SiLU
  double missing_rotary_factor = 1.0;  ///< what a missing partial_rotary_factor means
};

/// Which layers a config.json's sliding_window is for.
enum class SlidingLayers : uint8_t {
  kNamed,  ///< those that layer_types names; without it, and with use_sliding_window, those from max_window_layers on
  kAll,    ///< with use_sliding_window every layer
  kNone    ///< no layer: the family does not read these keys
};

/// Reads FOLDER/config.json (and generation_config.json), or the metadata of a GGUF file. Throws Error("config", ...)
/// for an unknown family, a missing or impossible value, or a feature that would change the result and is not
/// supported.
ModelConfig read_model_config(const std::filesystem::path& model);
/// What a config.json says; `where` stands for the file in errors. Leaves `folder` empty.
ModelConfig read_config_json(const Json& root, const std::string& where);

/// The parts of a config.json that all families and drafters have: geometry, norm, rope, layer kinds. A missing
/// head_dim means hidden / heads.
StackConfig read_stack_config(const JsonFields& fields, const ConfigKeys& keys = {},
                              SlidingLayers sliding = SlidingLayers::kNamed);

/// Rope from either spelling: rope_parameters, or rope_theta with rope_scaling.
RopeConfig read_rope_config(const JsonFields& fields, double missing_rotary_factor = 1.0);

}  // namespace ashlar
