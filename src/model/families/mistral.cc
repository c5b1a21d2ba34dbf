// SPDX-License-Identifier: Apache-2.0
// Mistral, and Ministral 3, whose queries grow with the position; Mistral Small 3.1 and later and Ministral 3 are
// published inside of models that see.

#include "model/families/family.h"

namespace ashlar {
namespace {

constexpr const char* kMistralRope = "rope_parameters";
constexpr const char* kGrowth = "llama_4_scaling_beta";
constexpr const char* kMistral = "mistral";
constexpr const char* kMinistral = "ministral3";

// What the class of transformers has where a file says nothing.
constexpr const char* kMinistralDefaults = R"({"head_dim": 128, "sliding_window": null, "rms_norm_eps": 1e-5,
  "rope_parameters": {"rope_type": "yarn", "rope_theta": 1000000.0, "factor": 16.0, "beta_fast": 32.0, "beta_slow": 1.0,
    "original_max_position_embeddings": 16384, "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.1}})";

// A window is for all layers; published files state null where there is none.
Json complete_mistral(const JsonFields& /*fields*/, const Json& settings) {
  Json own = settings;
  if (!settings.contains("sliding_window")) own["sliding_window"] = 4096;
  own["use_sliding_window"] = !own["sliding_window"].is_null();
  own.erase("layer_types");
  if (!settings.contains("num_key_value_heads")) own["num_key_value_heads"] = 8;
  return own;
}

Json complete_ministral(const JsonFields& fields, const Json& settings) {
  Json spelled = settings;
  if (fields.has("rope_scaling")) {  // the old spelling, which counts where both are there
    const JsonFields is_object = fields.object("rope_scaling");
    spelled[kMistralRope] = settings.at("rope_scaling");
    spelled.erase("rope_scaling");
    if (!spelled[kMistralRope].contains("rope_theta") && fields.has("rope_theta"))
      spelled[kMistralRope]["rope_theta"] = fields.raw("rope_theta");
  }
  const JsonFields words(spelled, fields.file(), "config");
  Json own = with_defaults(words, spelled, kMinistralDefaults);
  if (own[kMistralRope].is_object() && !own[kMistralRope].contains(kGrowth)) {
    words.object(kMistralRope).fail(kGrowth, "a number, by which queries grow");
  }
  return complete_mistral(fields, own);
}

// The text model is one or the other.
Json complete_either(const JsonFields& fields, const Json& settings) {
  const std::string type = fields.string("model_type", kMistral);
  if (type == kMinistral) return complete_ministral(fields, settings);
  if (type != kMistral) fields.fail("model_type", "mistral or ministral3");
  return complete_mistral(fields, settings);
}

void read_mistral(const JsonFields& fields, ModelConfig& config) {
  if (fields.string("model_type", kMistral) != kMinistral) return;
  const JsonFields rope = fields.object(kMistralRope);
  const double growth = rope.number(kGrowth, 0.0, 1e3);
  if (growth == 0) return;
  for (LayerAttention& layer : config.stack.layers) {
    layer.rope.query_growth = growth;
    if (layer.rope.original_max_positions > 0) continue;  // what the rope is stretched from
    layer.rope.original_max_positions = rope.number("original_max_position_embeddings", 1.0, 1e9);
  }
}

constexpr Family kMistralText = {.model_type = kMistral,
                                 .tied_by_default = false,
                                 .read = read_mistral,
                                 .sliding = SlidingLayers::kAll,
                                 .missing_stop_id = 2,
                                 .complete = complete_mistral};

constexpr Family ministral(Family family) {
  family.model_type = kMinistral;
  family.complete = complete_ministral;
  return family;
}

constexpr Family mistral_with_vision(Family family) {
  family.model_type = "mistral3";
  family.tied_by_default = true;
  family.settings = "text_config";
  family.names = kNextToVision;
  family.other_names = &kInsideVision;
  family.complete = complete_either;
  return family;
}

}  // namespace

const Family kMistralFamily = kMistralText;
const Family kMinistral3Family = ministral(kMistralText);
const Family kMistral3Family = mistral_with_vision(kMistralText);

}  // namespace ashlar
