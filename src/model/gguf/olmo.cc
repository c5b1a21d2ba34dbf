// SPDX-License-Identifier: Apache-2.0
// OLMo 2, and OLMo 3, which goes by its name and has windows. Layers with one rotate by the plain rope.

#include "model/gguf/architecture.h"

namespace ashlar {
namespace {

void complete_gguf_olmo(const GgufKeys& keys, const Checkpoint&, Json& config) {
  if (keys.number("attention.sliding_window", 0) == 0) return;
  config["model_type"] = "olmo3";
  config["sliding_window"] = keys.raw("attention.sliding_window");
  config["layer_types"] = gguf_window_types(keys, config["num_hidden_layers"].get<int64_t>(), 4);
  const double theta = keys.number("rope.freq_base", 10000);
  Json full = config.value("rope_scaling", Json{{"rope_type", "default"}});
  full["rope_theta"] = theta;
  const Json plain = {{"rope_type", "default"}, {"rope_theta", keys.number("rope.freq_base_swa", theta)}};
  config["rope_parameters"] = {{"full_attention", full}, {"sliding_attention", plain}};
  config.erase("rope_scaling");
}

}  // namespace

const GgufArchitecture kGgufOlmo2 = {
    .name = "olmo2", .family = "olmo2", .complete = complete_gguf_olmo, .windows = true};

}  // namespace ashlar
