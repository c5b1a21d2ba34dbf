// SPDX-License-Identifier: Apache-2.0
#include "model/families/family.h"

namespace ashlar {

MoeConfig read_expert_sizes(const JsonFields& fields, int32_t n_layers, const ExpertKeys& keys) {
  MoeConfig moe;
  moe.layers.assign(static_cast<size_t>(n_layers), true);
  // transformers 5 writes num_local_experts, and takes it where a file has both.
  const char* count = fields.has("num_local_experts") ? "num_local_experts" : keys.count;
  moe.n_experts = static_cast<int32_t>(fields.integer(count, 1, 4096));
  moe.intermediate = static_cast<int32_t>(fields.integer("moe_intermediate_size", 1, 1 << 20));
  moe.routing.top_k = static_cast<int32_t>(fields.integer(keys.chosen, 1, kMaxTopK));
  if (moe.routing.top_k > moe.n_experts) fields.fail(keys.chosen, std::string("at most ") + count);
  return moe;
}

void read_expert_groups(const JsonFields& fields, MoeConfig& moe) {
  Routing& routing = moe.routing;
  routing.n_groups = static_cast<int32_t>(fields.integer("n_group", 1, kMaxTopK));
  const int32_t size = moe.n_experts / routing.n_groups;
  if (moe.n_experts % routing.n_groups != 0 || (routing.n_groups > 1 && size < 2)) {
    fields.fail("n_group", "a divisor of the number of experts, " + std::to_string(moe.n_experts) +
                               ", that leaves groups of two experts or more");
  }
  routing.top_groups = static_cast<int32_t>(fields.integer("topk_group", 1, routing.n_groups));
  if (routing.top_k > size * routing.top_groups) {
    fields.fail("num_experts_per_tok", "at most the experts of topk_group groups");
  }
}

void require_switch(const JsonFields& fields, const char* key, bool fallback, bool expected) {
  if (fields.boolean(key, fallback) != expected) {
    fields.fail(key, std::string(expected ? "true" : "false") + " (the only form that is supported)");
  }
}

}  // namespace ashlar
