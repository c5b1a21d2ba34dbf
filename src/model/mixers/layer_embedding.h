// SPDX-License-Identifier: Apache-2.0
#pragma once
// Embeddings that layers have of their own, next to the one that begins the residual stream. Source: Gemma 3n and
// Gemma 4 (per-layer embeddings, transformers).

#include <memory>
#include <string>

#include "device/ops.h"
#include "model/binding/weight_binder.h"
#include "model/config.h"

namespace ashlar {

/// Activations that a stack's layer embeddings need.
struct LayerEmbeddingWorkspace {
  Tensor rows;      ///< [max_rows, layers * width]: what the layers get, side by side
  Tensor scratch;   ///< the same size
  Tensor gathered;  ///< [max_rows, width]
  Tensor answer;    ///< [max_rows, hidden]
};

/// Makes the embeddings of all layers, before the first of them runs.
class LayerEmbeddings {
 public:
  /// Binds the table [vocab, layers * width], the projection [layers * width, hidden] and the norm [width].
  LayerEmbeddings(WeightBinder& binder, const StackConfig& config, const ModelNames& names);

  /// workspace.rows[r], for each layer: what the token stands for there, times sqrt(width), plus the normed projection
  /// of x[r], over sqrt(2). x: [n, hidden], the embeddings of the rows whose tokens are `ids`.
  void make(Ops& ops, const int32_t* ids, Tensor x, const LayerEmbeddingWorkspace& workspace) const;
  size_t bytes() const { return table_->bytes() + projection_->bytes(); }

 private:
  int32_t layers_, width_;
  float norm_eps_, projection_scale_;
  std::unique_ptr<Weight> table_, projection_;
  DeviceVector norm_;
};

/// What one layer makes of its embedding.
class LayerEmbedding {
 public:
  /// Binds layer `layer`, whose tensors' names begin with `base`: a gate [width, hidden], an output [hidden, width] and
  /// the norm of what it gives.
  LayerEmbedding(WeightBinder& binder, const StackConfig& config, const std::string& base, int32_t layer);

  /// x[r] += norm(output(gelu(gate(x[r])) * e[r])) with e the layer's columns of workspace.rows, which are lost. x:
  /// [n, hidden], that of all rows; with `outputs` that of those of them alone.
  void add(Ops& ops, const LayerEmbeddingWorkspace& workspace, const int32_t* outputs, Tensor x) const;
  size_t bytes() const { return gate_->bytes() + output_->bytes(); }

 private:
  int32_t layer_, width_;
  float norm_eps_;
  std::unique_ptr<Weight> gate_, output_;
  DeviceVector norm_;
};

}  // namespace ashlar
