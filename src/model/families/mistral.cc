// SPDX-License-Identifier: Apache-2.0
#include "model/families/family.h"

namespace ashlar {
namespace {

// A window is for all layers; published files state null where there is none.
Json complete(const JsonFields& /*fields*/, const Json& settings) {
  Json own = settings;
  if (!settings.contains("sliding_window")) own["sliding_window"] = 4096;
  own["use_sliding_window"] = !own["sliding_window"].is_null();
  own.erase("layer_types");
  if (!settings.contains("num_key_value_heads")) own["num_key_value_heads"] = 8;
  return own;
}

void read(const JsonFields&, ModelConfig&) {}

}  // namespace

const Family kMistralFamily = {.model_type = "mistral",
                               .tied_by_default = false,
                               .read = read,
                               .sliding = SlidingLayers::kAll,
                               .missing_stop_id = 2,
                               .complete = complete};

}  // namespace ashlar
