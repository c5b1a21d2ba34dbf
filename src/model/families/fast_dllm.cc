// SPDX-License-Identifier: Apache-2.0
// Fast-dLLM v2 (arXiv 2509.26328): Qwen2.5 made to denoise blocks of 32 in parts of 8. Logits stay shifted by one, as
// they were in Qwen2.5.

#include "model/families/family.h"

namespace ashlar {
namespace {

constexpr BlockDiffusion kFastDllmUsual = {.block_size = 32, .mask_id = 151665, .token_shift = 1, .sub_block = 8};

void read_fast_dllm(const JsonFields& fields, ModelConfig& config) {
  config.stack.qkv_bias = true;
  read_diffusion(fields, kFastDllmUsual, config);
}

}  // namespace

const Family kFastDllmFamily = {"Fast_dLLM_Qwen", false, read_fast_dllm, {.missing_kv_heads = 32}};

}  // namespace ashlar
