#include "model/families/family.h"

namespace ashlar {

MoeConfig read_expert_sizes(const JsonFields& fields, int32_t n_layers) {
  MoeConfig moe;
  moe.layers.assign(static_cast<size_t>(n_layers), true);
  moe.n_experts = static_cast<int32_t>(fields.integer("num_experts", 1, 4096));
  moe.intermediate = static_cast<int32_t>(fields.integer("moe_intermediate_size", 1, 1 << 20));
  moe.routing.top_k = static_cast<int32_t>(fields.integer("num_experts_per_tok", 1, kMaxTopK));
  if (moe.routing.top_k > moe.n_experts) fields.fail("num_experts_per_tok", "at most num_experts");
  return moe;
}

void require_switch(const JsonFields& fields, const char* key, bool fallback, bool expected) {
  if (fields.boolean(key, fallback) != expected) {
    fields.fail(key, std::string(expected ? "true" : "false") + " (the only form that is supported)");
  }
}

}  // namespace ashlar
