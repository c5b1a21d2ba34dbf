// SPDX-License-Identifier: Apache-2.0
#include "train/mtp/mtp_parameters.h"

namespace ashlar {

MtpParameters::MtpParameters(TrainOps& ops, const TrainShape& shape, DType factors) : TrainedTensors(ops, factors) {
  place(entries(shape));
}

std::vector<TrainedTensors::Entry> MtpParameters::entries(const TrainShape& shape) {
  const TrainOwnLayer& own = *shape.own_layer;
  const int32_t hidden = shape.hidden;
  const int32_t width = shape.heads * shape.head_dim;
  const int32_t kv_width = shape.kv_heads * shape.head_dim;
  const auto norm_from = [&](int32_t n) {
    Form form = norm_of(n);
    form.is_from_one = own.norms_from_one;
    return form;
  };
  return {{"mtp.fc.weight", matrix(hidden, 2 * hidden), &fc},
          {"mtp.pre_fc_norm_embedding.weight", norm_from(hidden), &embedding_norm},
          {"mtp.pre_fc_norm_hidden.weight", norm_from(hidden), &feature_norm},
          {"mtp.layers.0.input_layernorm.weight", norm_from(hidden), &input_norm},
          {"mtp.layers.0.self_attn.q_proj.weight", matrix((own.output_gate ? 2 : 1) * width, hidden), &q},
          {"mtp.layers.0.self_attn.q_norm.weight", norm_from(shape.head_dim), &q_norm},
          {"mtp.layers.0.self_attn.k_norm.weight", norm_from(shape.head_dim), &k_norm},
          {"mtp.layers.0.self_attn.k_proj.weight", matrix(kv_width, hidden), &k},
          {"mtp.layers.0.self_attn.v_proj.weight", matrix(kv_width, hidden), &v},
          {"mtp.layers.0.self_attn.o_proj.weight", matrix(hidden, width), &o},
          {"mtp.layers.0.post_attention_layernorm.weight", norm_from(hidden), &mlp_norm},
          {"mtp.layers.0.mlp.gate_proj.weight", matrix(shape.intermediate, hidden), &gate},
          {"mtp.layers.0.mlp.up_proj.weight", matrix(shape.intermediate, hidden), &up},
          {"mtp.layers.0.mlp.down_proj.weight", matrix(hidden, shape.intermediate), &down},
          {"mtp.norm.weight", norm_from(hidden), &norm}};
}

}  // namespace ashlar
