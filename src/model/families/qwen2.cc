#include "model/families/family.h"

namespace ashlar {
namespace {

void read(const JsonFields&, ModelConfig& config) { config.stack.qkv_bias = true; }

}  // namespace

const Family kQwen2Family = {"qwen2", false, read};

}  // namespace ashlar
