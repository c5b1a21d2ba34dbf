// SPDX-License-Identifier: Apache-2.0
#include "train/drafter/drafter_parameters.h"

#include <utility>

namespace ashlar {

DrafterParameters::DrafterParameters(TrainOps& ops, const TrainShape& shape, DType factors)
    : TrainedTensors(ops, factors), layers(static_cast<size_t>(shape.layers)) {
  place(entries(shape));
}

std::vector<TrainedTensors::Entry> DrafterParameters::entries(const TrainShape& shape) {
  std::vector<Entry> all;
  const auto add = [&](std::string name, Form form, DrafterParameter& parameter) {
    all.push_back({std::move(name), std::move(form), &parameter});
  };
  const auto of_head = [](std::vector<int64_t> dimensions, Start start, bool is_table = false) {
    return Form{std::move(dimensions), start, is_table, true};
  };
  const int32_t width = shape.heads * shape.head_dim;
  const int32_t kv_width = shape.kv_heads * shape.head_dim;
  const auto convolutions = [&](const std::string& name, ConvParameters& conv) {
    if (!shape.convolutions) return;
    add(name + ".base_kernel", of_head({2, shape.convolutions->taps, shape.hidden}, Start::kIdentity), conv.base);
    add(name + ".kernel_projection.weight", of_head({shape.dynamic_width(), shape.hidden}, Start::kZero), conv.kernel);
  };
  add("fc.weight", matrix(shape.hidden, shape.aux_width), fc);
  add("hidden_norm.weight", norm_of(shape.hidden), hidden_norm);
  for (size_t i = 0; i < layers.size(); ++i) {
    DrafterLayerParameters& layer = layers[i];
    const std::string base = "layers." + std::to_string(i) + ".";
    add(base + "input_layernorm.weight", norm_of(shape.hidden), layer.input_norm);
    add(base + "self_attn.q_proj.weight", matrix(width, shape.hidden), layer.q);
    add(base + "self_attn.k_proj.weight", matrix(kv_width, shape.hidden), layer.k);
    add(base + "self_attn.v_proj.weight", matrix(kv_width, shape.hidden), layer.v);
    add(base + "self_attn.o_proj.weight", matrix(shape.hidden, width), layer.o);
    add(base + "self_attn.q_norm.weight", norm_of(shape.head_dim), layer.q_norm);
    add(base + "self_attn.k_norm.weight", norm_of(shape.head_dim), layer.k_norm);
    add(base + "post_attention_layernorm.weight", norm_of(shape.hidden), layer.mlp_norm);
    add(base + "mlp.gate_proj.weight", matrix(shape.intermediate, shape.hidden), layer.gate);
    add(base + "mlp.up_proj.weight", matrix(shape.intermediate, shape.hidden), layer.up);
    add(base + "mlp.down_proj.weight", matrix(shape.hidden, shape.intermediate), layer.down);
    convolutions(base + "attention_conv", layer.attention_conv);
    convolutions(base + "mlp_conv", layer.mlp_conv);
  }
  add("norm.weight", norm_of(shape.hidden), norm);
  if (shape.selector) {
    const std::string base = "candidate_selector.";
    const int64_t rank = shape.selector->rank;
    add(base + "hidden_projection.weight", of_head({rank, shape.hidden}, Start::kNoise), selector.projection);
    add(base + "predecessor_codebook", of_head({shape.vocab, rank}, Start::kNoise, true), selector.predecessors);
    add(base + "successor_codebook", of_head({shape.vocab, rank}, Start::kNoise, true), selector.successors);
  }
  if (shape.markov) {
    const int64_t rank = shape.markov->rank, rated = shape.markov->rated_width;
    add("markov_head.markov_w1.weight", of_head({shape.vocab, rank}, Start::kNoise, true), markov.codes);
    add("markov_head.markov_w2.weight", of_head({shape.vocab, rank}, Start::kZero, true), markov.outputs);
    if (rated > 0) {
      add("confidence_head.proj.weight", of_head({1, rated}, Start::kZero), markov.rating);
      Form bias = of_head({1}, Start::kZero);
      bias.is_optional = true;
      add("confidence_head.proj.bias", std::move(bias), markov.rating_bias);
    }
  }
  return all;
}

}  // namespace ashlar
