// SPDX-License-Identifier: Apache-2.0
// OLMo 2 (arXiv 2501.00656): norms after mixer and MLP instead of before them, and of all heads of queries and of keys
// together.

#include "model/families/family.h"

namespace ashlar {
namespace {

Json complete(const JsonFields& fields, const Json& settings) {
  Json own = settings;
  if (!fields.has("rms_norm_eps")) own["rms_norm_eps"] = 1e-5;
  return own;
}

void read(const JsonFields& fields, ModelConfig& config) {
  StackConfig& stack = config.stack;
  stack.qkv_bias = stack.output_bias = fields.boolean("attention_bias", false);
  stack.input_norms = false;
  stack.output_norms = stack.qk_norm = stack.wide_qk_norm = true;
}

}  // namespace

const Family kOlmo2Family = {.model_type = "olmo2",
                             .tied_by_default = false,
                             .read = read,
                             .sliding = SlidingLayers::kNone,
                             .missing_stop_id = 50279,
                             .complete = complete};

}  // namespace ashlar
