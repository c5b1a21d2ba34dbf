// SPDX-License-Identifier: Apache-2.0
#include "train/run/trained_drafter.h"

namespace ashlar {

TrainShape shape_of(const StackConfig& stack) {
  const LayerAttention& layer = stack.layers.front();
  TrainShape shape;
  shape.hidden = stack.hidden;
  shape.layers = stack.n_layers;
  shape.heads = layer.shape.n_heads;
  shape.kv_heads = layer.shape.n_kv_heads;
  shape.head_dim = layer.shape.head_dim;
  shape.intermediate = stack.intermediate;
  shape.eps = stack.norm_eps;
  shape.rope_theta = layer.rope.theta;
  return shape;
}

}  // namespace ashlar
