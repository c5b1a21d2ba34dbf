// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "model/families/family.h"

namespace ashlar {

void read_diffusion(const JsonFields& fields, const BlockDiffusion& usual, ModelConfig& config) {
  constexpr int64_t kMaxBlock = 4096;
  BlockDiffusion diffusion = usual;
  if (usual.block_size > 0) {
    const char* key = fields.has("block_size") ? "block_size" : "bd_size";
    diffusion.block_size = static_cast<int32_t>(fields.integer(key, 1, kMaxBlock, usual.block_size));
    if (diffusion.block_size % std::max(diffusion.sub_block, 1) != 0) diffusion.sub_block = 0;
  }
  if (!fields.has("mask_token_id") && usual.mask_id >= config.vocab) {
    fields.fail("mask_token_id",
                "an id below vocab_size (the usual one, " + std::to_string(usual.mask_id) + ", is not)");
  }
  diffusion.mask_id = static_cast<int32_t>(fields.integer("mask_token_id", 0, config.vocab - 1, usual.mask_id));
  for (LayerAttention& layer : config.stack.layers) layer.causal = false;
  config.diffusion = diffusion;
}

}  // namespace ashlar
