// SPDX-License-Identifier: Apache-2.0
// Ministral 3, and Mistral Small 3.1 and later by the same name, whose queries do not grow.

#include "model/gguf/architecture.h"

namespace ashlar {
namespace {

void complete_gguf_mistral(const GgufKeys& keys, const Checkpoint&, Json& config) {
  const double growth = keys.number("attention.temperature_scale", 0);
  if (growth == 0) config["model_type"] = "mistral";
  config["sliding_window"] = nullptr;
  Json rope = config.value("rope_scaling", Json{{"rope_type", "default"}});
  rope["rope_theta"] = keys.number("rope.freq_base", 10000);
  rope["llama_4_scaling_beta"] = growth;
  if (const double all = keys.number("rope.scaling.yarn_log_multiplier", 0); all != 0) {
    rope["mscale"] = 1.0;  // what readers take for the other one, which files do not have
    rope["mscale_all_dim"] = all;
  }
  config["rope_parameters"] = rope;
  config.erase("rope_scaling");
}

}  // namespace

const GgufArchitecture kGgufMistral3 = {.name = "mistral3",
                                        .family = "ministral3",
                                        .names = interleaved(),
                                        .complete = complete_gguf_mistral,
                                        .grows_queries = true};

}  // namespace ashlar
