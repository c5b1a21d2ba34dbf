// SPDX-License-Identifier: Apache-2.0
#include "train/eagle3/eagle3_parameters.h"

namespace ashlar {

Eagle3Parameters::Eagle3Parameters(TrainOps& ops, const TrainShape& shape, DType factors)
    : TrainedTensors(ops, factors) {
  place(entries(shape));
}

std::vector<TrainedTensors::Entry> Eagle3Parameters::entries(const TrainShape& shape) {
  const int32_t hidden = shape.hidden;
  const int32_t width = shape.heads * shape.head_dim;
  const int32_t kv_width = shape.kv_heads * shape.head_dim;
  return {{"fc.weight", matrix(hidden, shape.aux_width), &fc},
          {"midlayer.input_layernorm.weight", norm_of(hidden), &embedding_norm},
          {"midlayer.hidden_norm.weight", norm_of(hidden), &feature_norm},
          {"midlayer.self_attn.q_proj.weight", matrix(width, 2 * hidden), &q},
          {"midlayer.self_attn.k_proj.weight", matrix(kv_width, 2 * hidden), &k},
          {"midlayer.self_attn.v_proj.weight", matrix(kv_width, 2 * hidden), &v},
          {"midlayer.self_attn.o_proj.weight", matrix(hidden, width), &o},
          {"midlayer.post_attention_layernorm.weight", norm_of(hidden), &mlp_norm},
          {"midlayer.mlp.gate_proj.weight", matrix(shape.intermediate, hidden), &gate},
          {"midlayer.mlp.up_proj.weight", matrix(shape.intermediate, hidden), &up},
          {"midlayer.mlp.down_proj.weight", matrix(hidden, shape.intermediate), &down},
          {"norm.weight", norm_of(hidden), &norm}};
}

}  // namespace ashlar
