// SPDX-License-Identifier: Apache-2.0
// Dream (arXiv 2508.15487): Qwen2.5 that sees the whole sequence. Logits stay shifted by one.

#include "model/families/family.h"

namespace ashlar {
namespace {

constexpr BlockDiffusion kDreamUsual = {.mask_id = 151666, .token_shift = 1};

void read_dream(const JsonFields& fields, ModelConfig& config) {
  config.stack.qkv_bias = true;
  require_switch(fields, "use_mrope", false, false);
  read_diffusion(fields, kDreamUsual, config);
}

}  // namespace

const Family kDreamFamily = {"Dream", false, read_dream, {.missing_kv_heads = 32}};

}  // namespace ashlar
