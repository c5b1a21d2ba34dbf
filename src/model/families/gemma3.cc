// SPDX-License-Identifier: Apache-2.0
// Gemma 3 (arXiv 2503.19786): norms before and after mixer and MLP, a GELU, scaled embeddings, five layers with a
// window and a rope of their own for each that sees everything. Checkpoints may hold a vision tower, which is not used.

#include <cmath>

#include "model/families/family.h"

namespace ashlar {
namespace {

constexpr const char* kLocalTheta = "rope_local_base_freq";
constexpr const char* kQueryScalar = "query_pre_attn_scalar";

// What published files leave to the class of transformers.
constexpr const char* kGemma3Defaults = R"({"vocab_size": 262208, "hidden_size": 2304, "intermediate_size": 9216,
  "num_hidden_layers": 26, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
  "hidden_activation": "gelu_pytorch_tanh", "max_position_embeddings": 131072, "sliding_window": 4096,
  "query_pre_attn_scalar": 256})";
constexpr double kGlobalTheta = 1e6;
constexpr double kUsualLocalTheta = 1e4;

Json rope_of_gemma3(const JsonFields& fields, const char* kind) {
  if (!fields.has("rope_parameters")) return Json::object();
  const JsonFields parameters = fields.object("rope_parameters");
  for (const auto& [key, value] : fields.raw("rope_parameters").items()) {
    if (!value.is_object() && !value.is_null())
      parameters.fail(key, "full_attention and sliding_attention, an object each");
  }
  return parameters.has(kind) ? parameters.raw(kind) : Json::object();
}

// The rope of layers that see everything as that of the model, and that of the others as a base alone.
void spell_ropes(const JsonFields& fields, Json& own) {
  Json full = rope_of_gemma3(fields, "full_attention");
  if (fields.has("rope_scaling")) {
    const JsonFields is_object = fields.object("rope_scaling");
    full.update(fields.raw("rope_scaling"));
  }
  if (!full.contains("rope_theta")) full["rope_theta"] = fields.number("rope_theta", 1, 1e15, kGlobalTheta);
  const Json local = rope_of_gemma3(fields, "sliding_attention");
  if (local.value("rope_type", Json("default")) != "default") {
    fields.fail("rope_parameters", "a sliding_attention of rope_type default");
  }
  if (local.contains("rope_theta")) own[kLocalTheta] = local["rope_theta"];
  for (const char* key : {"rope_scaling", "rope_theta"}) own.erase(key);
  own["rope_parameters"] = std::move(full);
}

Json complete_gemma3(const JsonFields& fields, const Json& settings) {
  Json own = with_defaults(fields, settings, kGemma3Defaults);
  own["use_sliding_window"] = true;  // whatever a file says: the family does not read it
  if (!fields.has("layer_types")) {
    const int64_t layers = JsonFields(own, fields.file(), "config").integer("num_hidden_layers", 1, 1000);
    own["layer_types"] = windows_but_each(fields.integer("sliding_window_pattern", 1, 1000, 6), layers);
  }
  spell_ropes(fields, own);
  return own;
}

void read_gemma3(const JsonFields& fields, ModelConfig& config) {
  StackConfig& stack = config.stack;
  for (const char* key : {"attn_logit_softcapping", "final_logit_softcapping"}) {
    if (fields.has(key)) fields.fail(key, "null (the only form that is supported)");
  }
  require_switch(fields, "use_bidirectional_attention", false, false);
  stack.qkv_bias = stack.output_bias = fields.boolean("attention_bias", false);
  stack.qk_norm = stack.output_norms = stack.norms_from_one = true;
  config.embedding_scale = std::sqrt(static_cast<float>(stack.hidden));
  // A stretched rope is counted in already.
  config.max_positions = static_cast<int32_t>(fields.integer("max_position_embeddings", 1, int64_t{1} << 24));
  const double scalar = fields.number(kQueryScalar, 1e-6, 1e9);
  for (LayerAttention& layer : stack.layers) {
    layer.shape.scale = static_cast<float>(1.0 / std::sqrt(scalar));
    if (layer.window == 0) continue;
    layer.rope = RopeConfig{};
    layer.rope.theta = fields.number(kLocalTheta, 1.0 + 1e-6, 1e15, kUsualLocalTheta);
  }
}

constexpr Family kGemma3Text = {.model_type = "gemma3_text",
                                .tied_by_default = true,
                                .read = read_gemma3,
                                .keys = {.activation = "hidden_activation", .gelu = true},
                                .layer_names = {.post_norm = "pre_feedforward_layernorm"},
                                .missing_stop_id = 1,
                                .complete = complete_gemma3};

constexpr Family gemma3_with_vision(Family family) {
  family.model_type = "gemma3";
  family.settings = "text_config";
  family.names = kNextToVision;
  family.other_names = &kInsideVision;
  return family;
}

}  // namespace

const Family kGemma3TextFamily = kGemma3Text;
const Family kGemma3Family = gemma3_with_vision(kGemma3Text);

}  // namespace ashlar
