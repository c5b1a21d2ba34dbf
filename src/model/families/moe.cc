// SPDX-License-Identifier: Apache-2.0
#include "model/families/family.h"

namespace ashlar {

MoeConfig read_expert_sizes(const JsonFields& fields, int32_t n_layers) {
  MoeConfig moe;
  moe.layers.assign(static_cast<size_t>(n_layers), true);
  // transformers 5 writes num_local_experts, and takes it where a file has both.
  const char* count = fields.has("num_local_experts") ? "num_local_experts" : "num_experts";
  moe.n_experts = static_cast<int32_t>(fields.integer(count, 1, 4096));
  moe.intermediate = static_cast<int32_t>(fields.integer("moe_intermediate_size", 1, 1 << 20));
  moe.routing.top_k = static_cast<int32_t>(fields.integer("num_experts_per_tok", 1, kMaxTopK));
  if (moe.routing.top_k > moe.n_experts) fields.fail("num_experts_per_tok", std::string("at most ") + count);
  return moe;
}

void require_switch(const JsonFields& fields, const char* key, bool fallback, bool expected) {
  if (fields.boolean(key, fallback) != expected) {
    fields.fail(key, std::string(expected ? "true" : "false") + " (the only form that is supported)");
  }
}

}  // namespace ashlar
