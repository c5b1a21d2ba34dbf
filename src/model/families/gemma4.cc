// SPDX-License-Identifier: Apache-2.0
// Gemma 4: Gemma 3's layers with wider heads where they see everything, whose values may be their keys before norm and
// rope; normed values; a number that each layer is multiplied by. The small models give layers embeddings of their own
// and let the last ones read keys and values of earlier ones; the 26B-A4B has experts next to its dense MLPs.
// Checkpoints may hold towers that see and hear.

#include <cmath>
#include <string>
#include <vector>

#include "model/families/family.h"

namespace ashlar {
namespace {

// What published files leave to the class of transformers.
constexpr const char* kGemma4Defaults = R"({"vocab_size": 262144, "hidden_size": 2304, "intermediate_size": 9216,
  "num_hidden_layers": 30, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
  "hidden_activation": "gelu_pytorch_tanh", "max_position_embeddings": 131072, "sliding_window": 512,
  "rope_parameters": {"sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
    "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1e6}}})";
constexpr int64_t kGlobalHeadDim = 512;
constexpr const char* kGemma4Ropes =
    "ropes_by_kind";                                // rope_parameters, which the shared keys have for all layers alike
constexpr const char* kLayerSizes = "layer_sizes";  // per_layer_config, which other families refuse

Json complete_gemma4(const JsonFields& fields, const Json& settings) {
  Json own = with_defaults(fields, settings, kGemma4Defaults);
  // Null and 0 mean that there are none.
  if (!settings.contains("hidden_size_per_layer_input")) own["hidden_size_per_layer_input"] = 256;
  own["use_sliding_window"] = true;  // whatever a file says: the family does not read it
  own[kGemma4Ropes] = own["rope_parameters"];
  for (const char* key : {"rope_parameters", "rope_theta", "rope_scaling", "partial_rotary_factor"}) own.erase(key);
  const int64_t layers = JsonFields(own, fields.file(), "config").integer("num_hidden_layers", 1, 1000);
  Json types = Json::array();
  if (fields.has("layer_types")) {
    for (const std::string& type : fields.strings("layer_types")) types.push_back(type);
  } else {
    types = windows_but_each(6, layers);
  }
  if (!types.empty()) types.back() = "full_attention";  // as the class has it
  own["layer_types"] = std::move(types);
  own[kLayerSizes] = fields.has("per_layer_config") ? fields.raw("per_layer_config") : Json();
  own.erase("per_layer_config");
  return own;
}

RopeConfig rope_of_gemma4(const JsonFields& fields, const char* kind) {
  const JsonFields ropes = fields.object(kGemma4Ropes);
  const JsonFields values = ropes.object(kind);
  RopeConfig rope;
  const std::string type = values.string("rope_type", "default");
  if (type != "default" && type != "proportional") values.fail("rope_type", "default or proportional");
  rope.theta = values.number("rope_theta", 1.0 + 1e-6, 1e15);
  if (type == "default") return rope;
  rope.scaling = RopeConfig::Scaling::kProportional;
  rope.factor = values.number("factor", 1.0, 1e9, 1.0);
  rope.partial_rotary_factor = values.number("partial_rotary_factor", 0.0, 1.0, 1.0);
  return rope;
}

// Layers that see everything have heads of a size, and a number, of their own.
void read_full_shape(const JsonFields& fields, const char* head_dim, int64_t usual, const char* kv_heads,
                     AttentionShape& shape) {
  shape.head_dim = static_cast<int32_t>(fields.integer(head_dim, 2, kMaxHeadDim, usual));
  if (shape.head_dim % 2 != 0) fields.fail(head_dim, "an even number");
  if (!fields.has(kv_heads)) return;
  shape.n_kv_heads = static_cast<int32_t>(fields.integer(kv_heads, 1, shape.n_heads));
  if (shape.n_heads % shape.n_kv_heads != 0) fields.fail(kv_heads, "a divisor of num_attention_heads");
}

// The layer of a number such as "05": transformers writes as many digits as the last one has. -1: it is no number.
int32_t layer_of(const std::string& number) {
  if (number.empty() || number.size() > 9 || number.find_first_not_of("0123456789") != std::string::npos) return -1;
  return std::stoi(number);
}

// As published, or layer by layer, as transformers 5 writes it.
void read_shape(const JsonFields& fields, int32_t layer, bool sees_everything, AttentionShape& shape) {
  if (!fields.has(kLayerSizes)) {
    if (!sees_everything) return;
    const bool own_kv = fields.boolean("attention_k_eq_v", false);
    const char* const kv_heads = own_kv ? "num_global_key_value_heads" : "num_key_value_heads";
    return read_full_shape(fields, "global_head_dim", kGlobalHeadDim, kv_heads, shape);
  }
  const JsonFields layers = fields.object(kLayerSizes);
  for (const auto& [number, own] : fields.raw(kLayerSizes).items()) {
    if (layer_of(number) != layer) continue;
    const JsonFields sizes = layers.object(number);
    for (const auto& [key, value] : own.items()) {
      if (key != "head_dim" && key != "num_key_value_heads") sizes.fail(key, "nothing (layers differ in heads alone)");
    }
    read_full_shape(sizes, "head_dim", shape.head_dim, "num_key_value_heads", shape);
  }
}

void check_layer_sizes(const JsonFields& fields, int32_t n_layers) {
  if (!fields.has(kLayerSizes)) return;
  const JsonFields layers = fields.object(kLayerSizes);
  std::vector<bool> has(static_cast<size_t>(n_layers));
  for (const auto& [key, value] : fields.raw(kLayerSizes).items()) {
    const int32_t layer = layer_of(key);
    if (layer < 0 || layer >= n_layers || has[static_cast<size_t>(layer)]) {
      layers.fail(key, "numbers of layers, from 0 to " + std::to_string(n_layers - 1) + ", each once");
    }
    has[static_cast<size_t>(layer)] = true;
  }
}

// The last layers read keys and values of the last one before them that sees as they do.
void share_kv(const JsonFields& fields, StackConfig& stack) {
  const int64_t shared = fields.integer("num_kv_shared_layers", 0, stack.n_layers - 1, 0);
  const auto first = static_cast<int32_t>(stack.n_layers - shared);
  for (int32_t i = first; i < stack.n_layers; ++i) {
    LayerAttention& layer = stack.layers[static_cast<size_t>(i)];
    for (int32_t from = 0; from < first; ++from) {
      if (stack.layers[static_cast<size_t>(from)].sees_as(layer)) layer.kv_of = from;
    }
    if (layer.kv_of < 0 || stack.layers[static_cast<size_t>(layer.kv_of)].shape != layer.shape) {
      fields.fail("num_kv_shared_layers", "fewer layers, so that one of each kind and shape comes before them");
    }
  }
  if (shared == 0 || !fields.boolean("use_double_wide_mlp", false)) return;
  stack.mlp_widths.assign(static_cast<size_t>(stack.n_layers), stack.intermediate);
  for (int32_t i = first; i < stack.n_layers; ++i) stack.mlp_widths[static_cast<size_t>(i)] *= 2;
}

void read_experts(const JsonFields& fields, StackConfig& stack) {
  if (!fields.boolean("enable_moe_block", false)) return;
  MoeConfig moe = read_expert_sizes(fields, stack.n_layers, {.chosen = "top_k_experts"});
  moe.routing.normalise = moe.with_dense = moe.gate.gelu = true;
  stack.moe = std::move(moe);
}

void read_gemma4(const JsonFields& fields, ModelConfig& config) {
  StackConfig& stack = config.stack;
  require_switch(fields, "attention_bias", false, false);
  if (fields.has("use_bidirectional_attention") && fields.string("use_bidirectional_attention") != "vision") {
    fields.fail("use_bidirectional_attention", "\"vision\" or null (text is read from left to right)");
  }
  stack.qk_norm = stack.output_norms = stack.value_norm = stack.layer_scale = true;
  config.embedding_scale = std::sqrt(static_cast<float>(stack.hidden));
  config.logit_softcap = static_cast<float>(fields.number("final_logit_softcapping", 0.0, 1e9, 0.0));
  check_layer_sizes(fields, stack.n_layers);
  const RopeConfig full = rope_of_gemma4(fields, "full_attention"),
                   sliding = rope_of_gemma4(fields, "sliding_attention");
  const bool keys_are_values = fields.boolean("attention_k_eq_v", false);
  for (int32_t i = 0; i < stack.n_layers; ++i) {
    LayerAttention& layer = stack.layers[static_cast<size_t>(i)];
    layer.rope = layer.window > 0 ? sliding : full;
    read_shape(fields, i, layer.window == 0, layer.shape);
    layer.values_are_keys = keys_are_values && layer.window == 0;
    layer.shape.scale = 1;  // norms of queries and keys have it
  }
  share_kv(fields, stack);
  read_experts(fields, stack);
  const auto width = static_cast<int32_t>(fields.integer("hidden_size_per_layer_input", 0, 1 << 16, 0));
  if (width == 0) return;
  stack.layer_embedding = LayerEmbeddingConfig{
      width, static_cast<int32_t>(fields.integer("vocab_size_per_layer_input", config.vocab, 1 << 24, 262144))};
}

constexpr ModelNames kGemma4Inside = {
    .embedding = "model.language_model.embed_tokens",
    .layers = "model.language_model.layers.",
    .norm = "model.language_model.norm",
    .layer_embedding = "model.language_model.embed_tokens_per_layer",
    .layer_embedding_projection = "model.language_model.per_layer_model_projection",
    .layer_embedding_norm = "model.language_model.per_layer_projection_norm",
    .unused = {"model.vision_tower.", "model.embed_vision.", "model.audio_tower.", "model.embed_audio."}};

constexpr Family kGemma4Text = {.model_type = "gemma4_text",
                                .tied_by_default = true,
                                .read = read_gemma4,
                                .keys = {.activation = "hidden_activation", .gelu = true},
                                .layer_names = {.post_norm = "pre_feedforward_layernorm",
                                                .router = "router.proj",
                                                .experts = nullptr,
                                                .merged_down = "experts.down_proj",
                                                .merged_gate_up = "experts.gate_up_proj"},
                                .missing_stop_id = 1,
                                .rotates_part = true,
                                .complete = complete_gemma4};

constexpr Family with_towers(Family family) {
  family.model_type = "gemma4";
  family.settings = "text_config";
  family.names = kGemma4Inside;
  return family;
}

}  // namespace

const Family kGemma4TextFamily = kGemma4Text;
const Family kGemma4Family = with_towers(kGemma4Text);

}  // namespace ashlar
