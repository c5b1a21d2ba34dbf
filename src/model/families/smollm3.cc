// SPDX-License-Identifier: Apache-2.0
// SmolLM3: a Llama some of whose layers have no rotary embedding. With a window in use, it is those that have it.

#include "model/families/family.h"

namespace ashlar {
namespace {

constexpr const char* kRotated = "no_rope_layers";  // named after what 0 means in it

std::vector<int32_t> rotated_layers(const JsonFields& fields, int32_t n_layers) {
  std::vector<int32_t> rotated;
  if (fields.has(kRotated)) {
    rotated = fields.integers(kRotated, 0, 1);
  } else {
    const int64_t interval = fields.integer("no_rope_layer_interval", 1, 1000, 4);
    for (int32_t i = 1; i <= n_layers; ++i) rotated.push_back(i % interval != 0 ? 1 : 0);
  }
  if (static_cast<int32_t>(rotated.size()) != n_layers) {
    fields.fail(kRotated, std::to_string(n_layers) + " entries of 0 or 1, one per layer");
  }
  return rotated;
}

Json complete_smollm3(const JsonFields& fields, const Json& settings) {
  Json own = settings;
  if (!says_rope_theta(fields)) own["rope_theta"] = 2e6;
  if (fields.has("layer_types") || !fields.boolean("use_sliding_window", false)) return own;
  const auto n_layers = static_cast<int32_t>(fields.integer("num_hidden_layers", 1, 1000));
  Json& types = own["layer_types"] = Json::array();
  for (const int32_t rotated : rotated_layers(fields, n_layers)) {
    types.push_back(rotated == 0 && fields.has("sliding_window") ? "sliding_attention" : "full_attention");
  }
  return own;
}

void read_smollm3(const JsonFields& fields, ModelConfig& config) {
  StackConfig& stack = config.stack;
  stack.qkv_bias = stack.output_bias = fields.boolean("attention_bias", false);
  stack.mlp_bias = fields.boolean("mlp_bias", false);
  const std::vector<int32_t> rotated = rotated_layers(fields, stack.n_layers);
  for (int32_t i = 0; i < stack.n_layers; ++i) {
    if (rotated[i] != 0) continue;
    stack.layers[i].rope = RopeConfig{};
    stack.layers[i].rope.partial_rotary_factor = 0;
  }
}

}  // namespace

const Family kSmolLm3Family = {.model_type = "smollm3",
                               .tied_by_default = true,
                               .read = read_smollm3,
                               .keys = {.missing_kv_heads = 4},
                               .missing_stop_id = 128001,
                               .complete = complete_smollm3};

}  // namespace ashlar
