// SPDX-License-Identifier: Apache-2.0
// OLMo 2 (arXiv 2501.00656): norms after mixer and MLP instead of before them, and of all heads of queries and of keys
// together. OLMo 3: three of four layers see a window, and rotate by the plain rope whatever scales that of the others.

#include "model/families/family.h"

namespace ashlar {
namespace {

Json complete_olmo(const JsonFields& fields, const Json& settings) {
  Json own = settings;
  if (!fields.has("rms_norm_eps")) own["rms_norm_eps"] = 1e-5;
  return own;
}

void read_olmo(const JsonFields& fields, ModelConfig& config) {
  StackConfig& stack = config.stack;
  stack.qkv_bias = stack.output_bias = fields.boolean("attention_bias", false);
  stack.input_norms = false;
  stack.output_norms = stack.qk_norm = stack.wide_qk_norm = true;
}

// What files of OLMo 3 leave to the class of transformers.
constexpr const char* kOlmoDefaults = R"({"vocab_size": 50304, "hidden_size": 4096, "intermediate_size": 11008,
  "num_hidden_layers": 32, "num_attention_heads": 32, "max_position_embeddings": 2048, "rms_norm_eps": 1e-5,
  "sliding_window": 4096})";
constexpr double kTheta = 500000.0;
constexpr const char* kOlmoRopes = "rope_parameters";
constexpr const char* kSlidingRope = "sliding_rope";  // of rope_parameters, which the shared keys have for all alike

Json complete_olmo3(const JsonFields& fields, const Json& settings) {
  Json own = with_defaults(fields, settings, kOlmoDefaults);
  own["use_sliding_window"] = true;  // whatever a file says: the family does not read it
  // A rope a kind, as transformers 5 writes it.
  if (fields.has(kOlmoRopes) && fields.object(kOlmoRopes).has("full_attention")) {
    const JsonFields ropes = fields.object(kOlmoRopes);
    own[kOlmoRopes] = ropes.raw("full_attention");
    if (ropes.has("sliding_attention")) own[kSlidingRope] = ropes.raw("sliding_attention");
  } else if (!says_rope_theta(fields)) {
    own["rope_theta"] = kTheta;
  }
  if (fields.has("layer_types")) return own;
  const int64_t layers = JsonFields(own, fields.file(), "config").integer("num_hidden_layers", 1, 1000);
  own["layer_types"] = windows_but_each(4, layers);
  return own;
}

void read_olmo3(const JsonFields& fields, ModelConfig& config) {
  read_olmo(fields, config);
  // A base that the file gives once is that of all layers (transformers 5.24 takes it from those with a window, where
  // the other rope is scaled; published files say the usual one).
  RopeConfig plain;
  plain.theta = config.stack.layers[0].rope.theta;
  if (fields.has(kSlidingRope)) {
    const JsonFields rope = fields.object(kSlidingRope);
    if (rope.string("rope_type", "default") != "default") rope.fail("rope_type", "default (of layers with a window)");
    plain.theta = rope.number("rope_theta", 1.0 + 1e-6, 1e15, plain.theta);
  }
  for (LayerAttention& layer : config.stack.layers) {
    if (layer.window > 0) layer.rope = plain;
  }
}

}  // namespace

const Family kOlmo2Family = {.model_type = "olmo2",
                             .tied_by_default = false,
                             .read = read_olmo,
                             .sliding = SlidingLayers::kNone,
                             .missing_stop_id = 50279,
                             .complete = complete_olmo};

const Family kOlmo3Family = {.model_type = "olmo3",
                             .tied_by_default = false,
                             .read = read_olmo3,
                             .missing_stop_id = 50279,
                             .complete = complete_olmo3};

}  // namespace ashlar
