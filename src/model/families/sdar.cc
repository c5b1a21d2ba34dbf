// SPDX-License-Identifier: Apache-2.0
// SDAR (arXiv 2510.06303): Qwen3 or Qwen3-MoE made to denoise blocks; the same tensors, a mask token, no token shift.

#include "model/families/family.h"

namespace ashlar {
namespace {

// The published checkpoints state neither: blocks of 4, and `<|MASK|>` of their tokenizer.
constexpr BlockDiffusion kSdarUsual = {.block_size = 4, .mask_id = 151669};

void read_sdar(const JsonFields& fields, ModelConfig& config) {
  read_qwen3_attention(fields, config.stack);
  read_diffusion(fields, kSdarUsual, config);
}

void read_sdar_moe(const JsonFields& fields, ModelConfig& config) {
  read_sdar(fields, config);
  config.stack.moe = read_qwen3_moe(fields, config.stack);
}

}  // namespace

const Family kSdarFamily = {"sdar", false, read_sdar, {.missing_kv_heads = 32, .missing_head_dim = 128}};
const Family kSdarMoeFamily = {"sdar_moe", false, read_sdar_moe, {.missing_kv_heads = 4}};

}  // namespace ashlar
