// SPDX-License-Identifier: Apache-2.0
#include "model/mixers/layer_embedding.h"

#include <cmath>
#include <numbers>

namespace ashlar {

LayerEmbeddings::LayerEmbeddings(WeightBinder& binder, const StackConfig& config, const ModelNames& names)
    : layers_(config.n_layers),
      width_(config.layer_embedding->width),
      norm_eps_(config.norm_eps),
      projection_scale_(1.0F / std::sqrt(static_cast<float>(config.hidden))),
      table_(binder.vocabulary({names.layer_embedding, config.layer_embedding->vocab}, int64_t{layers_} * width_)),
      projection_(binder.linear({{names.layer_embedding_projection, int64_t{layers_} * width_}}, config.hidden, false)),
      norm_(binder.norm(names.layer_embedding_norm, width_, config.norms_from_one)) {}

void LayerEmbeddings::make(Ops& ops, const int32_t* ids, Tensor x, const LayerEmbeddingWorkspace& workspace) const {
  const Tensor rows = workspace.rows.narrow(x.rows), projected = workspace.scratch.narrow(x.rows);
  ops.embed(*table_, ids, std::sqrt(static_cast<float>(width_)), rows);
  ops.linear(*projection_, x, Store::kOverwrite, projected);
  ops.scale(projected, projection_scale_);
  for (int32_t i = 0; i < layers_; ++i) {
    const Tensor own = projected.columns(i * width_, width_);
    ops.rms_norm(own, norm_.data(), norm_eps_, own);
  }
  ops.reduce_add(projected, rows);
  ops.scale(rows, static_cast<float>(1.0 / std::numbers::sqrt2));
}

LayerEmbedding::LayerEmbedding(WeightBinder& binder, const StackConfig& config, const std::string& base, int32_t layer)
    : layer_(layer),
      width_(config.layer_embedding->width),
      norm_eps_(config.norm_eps),
      gate_(binder.linear({{base + config.names.embedding_gate, width_}}, config.hidden, false)),
      output_(binder.linear({{base + config.names.embedding_output, config.hidden}}, width_, false)),
      norm_(binder.norm(base + config.names.embedding_norm, config.hidden, config.norms_from_one)) {}

void LayerEmbedding::add(Ops& ops, const LayerEmbeddingWorkspace& workspace, const int32_t* outputs, Tensor x) const {
  Tensor own = workspace.rows.columns(layer_ * width_, width_);
  if (outputs != nullptr) {
    const Tensor gathered = workspace.gathered.narrow(x.rows);
    ops.gather_rows(own, outputs, gathered);
    own = gathered;
  }
  own = own.narrow(x.rows);
  const Tensor gates = workspace.scratch.narrow(x.rows).columns(0, width_), answer = workspace.answer.narrow(x.rows);
  ops.linear(*gate_, x, Store::kOverwrite, gates);
  ops.gelu_gate(gates, own);
  ops.linear(*output_, own, Store::kOverwrite, answer);
  ops.rms_norm(answer, norm_.data(), norm_eps_, answer);
  ops.reduce_add(answer, x);
}

}  // namespace ashlar
