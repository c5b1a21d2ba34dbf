// SPDX-License-Identifier: Apache-2.0
// Phi-3 and Phi-4 (arXiv 2404.14219, 2412.08905): a Llama with queries, keys and values in one tensor, gates and ups in
// another; a window in all layers or none; some rotate a part of each head.
// LongRoPE (arXiv 2402.13753) has one set of factors for sequences up to the length of training and one for longer
// ones, so that a sequence that grows past it would need its keys anew. Sequences end at that length here, and have the
// first set.

#include <cmath>

#include "model/families/family.h"

namespace ashlar {
namespace {

constexpr const char* kLongRope = "longrope";
constexpr const char* kOriginal = "original_max_position_embeddings";

// The rope's kind of a file, in either spelling, with LongRoPE moved to a key of its own.
void spell_rope(const JsonFields& fields, Json& own) {
  const bool old = fields.has("rope_scaling") && fields.raw("rope_scaling") != Json::object();
  const char* key = old ? "rope_scaling" : "rope_parameters";
  if (!fields.has(key)) return;
  const JsonFields rope = fields.object(key);
  const std::string type = rope.string("rope_type", rope.string("type", "default"));
  if (type == "default") return;
  // As older files of the family call it.
  if (type != kLongRope && type != "su" && type != "yarn") rope.fail("rope_type", "default or longrope");
  Json plain = Json::object();
  for (const char* kept : {"rope_theta", "partial_rotary_factor"}) {
    if (rope.has(kept)) plain[kept] = rope.raw(kept);
  }
  own[kLongRope] = fields.raw(key);
  own.erase("rope_scaling");
  own["rope_parameters"] = std::move(plain);
}

Json complete_phi3(const JsonFields& fields, const Json& settings) {
  Json own = settings;
  own["use_sliding_window"] = fields.has("sliding_window");
  if (!fields.has("sliding_window")) own["sliding_window"] = nullptr;
  own.erase("layer_types");
  if (!fields.has("rms_norm_eps")) own["rms_norm_eps"] = 1e-5;
  spell_rope(fields, own);
  return own;
}

std::vector<float> read_factors(const JsonFields& rope, const char* key, int32_t count) {
  const std::string expected = std::to_string(count) + " positive numbers, one for each frequency";
  const Json& values = rope.raw(key);
  if (!values.is_array() || static_cast<int32_t>(values.size()) != count) rope.fail(key, expected);
  std::vector<float> factors;
  for (const Json& value : values) {
    factors.push_back(value.is_number() ? value.get<float>() : 0.0F);
    if (!(factors.back() > 0) || !std::isfinite(factors.back())) rope.fail(key, expected);
  }
  return factors;
}

void read_long_rope(const JsonFields& fields, ModelConfig& config) {
  const JsonFields rope = fields.object(kLongRope);
  LayerAttention& first = config.stack.layers[0];
  const auto trained =
      static_cast<int32_t>((fields.has(kOriginal) ? fields : rope).integer(kOriginal, 2, config.max_positions, 4096));
  const int32_t frequencies = first.rope.rotary_dim(first.shape.head_dim) / 2;
  read_factors(rope, "long_factor", frequencies);
  const double stretched = static_cast<double>(config.max_positions) / trained;
  const double factor = rope.number("factor", 1.0, 1e9, stretched);
  const double usual = factor > 1 ? std::sqrt(1 + std::log(factor) / std::log(trained)) : 1;
  for (LayerAttention& layer : config.stack.layers) {
    layer.rope.scaling = RopeConfig::Scaling::kFactors;
    layer.rope.factors = read_factors(rope, "short_factor", frequencies);
    layer.rope.attention_factor = rope.number("attention_factor", 1e-9, 1e9, usual);
  }
  config.max_positions = trained;
}

void read_phi3(const JsonFields& fields, ModelConfig& config) {
  if (fields.has(kLongRope)) read_long_rope(fields, config);
}

}  // namespace

const Family kPhi3Family = {.model_type = "phi3",
                            .tied_by_default = false,
                            .read = read_phi3,
                            .layer_names = {.fused_qkv = "self_attn.qkv_proj", .fused_gate_up = "mlp.gate_up_proj"},
                            .sliding = SlidingLayers::kAll,
                            .missing_stop_id = 32000,
                            .rotates_part = true,
                            .complete = complete_phi3};

}  // namespace ashlar
