// SPDX-License-Identifier: Apache-2.0
#include "model/families/family.h"

namespace ashlar {
namespace {

void read_qwen2(const JsonFields&, ModelConfig& config) { config.stack.qkv_bias = true; }

}  // namespace

const Family kQwen2Family = {"qwen2", false, read_qwen2, {.missing_kv_heads = 32}};

}  // namespace ashlar
