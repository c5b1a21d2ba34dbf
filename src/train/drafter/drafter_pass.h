// SPDX-License-Identifier: Apache-2.0
#pragma once
// Forward and backward of a drafter over the blocks of some documents.

#include <memory>
#include <optional>
#include <vector>

#include "train/drafter/conv_pass.h"
#include "train/drafter/drafter_parameters.h"
#include "train/drafter/markov_pass.h"
#include "train/drafter/network.h"
#include "train/drafter/rotation_table.h"
#include "train/drafter/selector_pass.h"
#include "train/drafter/step_memory.h"

namespace ashlar {

class DrafterPass final : public BlockPass {
 public:
  /// Activations that products or attention take, and their gradients, are of the type of the parameters' factors; the
  /// residual stream, what is added to it and its gradient are fp32.
  DrafterPass(TrainOps& ops, const TrainShape& shape, const DrafterParameters& parameters, const FrozenTables& frozen,
              std::optional<DistributionLoss> distribution, double rating_weight = 1);

  void refresh() override {
    if (markov_) markov_->refresh_joined_head();
  }
  BlockLosses forward(const BlockBatch& batch, bool differentiates) override;
  void backward(const BlockBatch& batch, std::span<const float> weights, std::span<const float> chosen) override;
  size_t bytes(int32_t context_rows, int32_t block_rows) const override;

 private:
  /// What a layer's backward needs of its forward; normed rows and gated products are computed again.
  struct Layer {
    Tensor input;               // [block rows, hidden]: the residual stream before the layer
    Tensor q_raw, k_raw, q, k;  // before and after norm and rope; k: context rows, then block rows
    Tensor v;
    Tensor attended, log_sums;
    Tensor middle;  // the residual stream after attention
    Tensor gate, up;
    ConvPass::Saved attention_conv, mlp_conv;
    TrainSight sight;
  };
  struct Sizes {
    int32_t context_rows = 0, block_rows = 0, label_rows = 0;
    int32_t target_rows = 0;  // of the documents, where distributions are learnt
  };
  void lay_out(TensorRoom& room, const Sizes& sizes);
  void prepare(const BlockBatch& batch);
  void prepare_indices(const BlockBatch& batch);
  void find_losses(Tensor d_labelled);
  template <class Fn>
  void for_parts(const Fn& fn);
  void attention_forward(const DrafterLayerParameters& p, const Layer& layer);
  void mlp_forward(const DrafterLayerParameters& p, const Layer& layer, Tensor next);
  void attention_backward(const DrafterLayerParameters& p, const Layer& layer, bool is_first);
  void mlp_backward(const DrafterLayerParameters& p, const Layer& layer);
  /// Columns of what logits are made of: hidden states, and what a head has next to them.
  int32_t head_width() const { return shape_.hidden + (shape_.markov ? shape_.markov->rank : 0); }
  Tensor hidden_of(Tensor rows) const { return rows.columns(0, shape_.hidden); }
  Tensor heads_of(Tensor x) const {
    return {x.data, x.rows * (x.cols / shape_.head_dim), shape_.head_dim, shape_.head_dim, x.dtype};
  }
  Tensor context(Tensor x) const { return x.narrow(attention_.context_rows); }
  Tensor own(Tensor x) const { return x.skip(attention_.context_rows); }
  void norm(Tensor x, const DrafterParameter& p, Tensor out) { ops_.rms_norm(x, p.value.row(0), shape_.eps, out); }
  void norm_backward(Tensor d_out, Tensor x, const DrafterParameter& p, Store store, Tensor d_x) {
    ops_.rms_norm_gradient(d_out, x, p.value.row(0), shape_.eps, store, d_x, p.gradient.row(0));
  }
  BlockAttention attention_of(const Layer& layer) const;
  void rotate_rows(Tensor queries, Tensor keys, bool back);

  TrainOps& ops_;
  const TrainShape shape_;
  const DrafterParameters& parameters_;
  const FrozenTables frozen_;
  const std::optional<DistributionLoss> distribution_;
  const double rating_weight_;
  const TrainPieces pieces_;
  ConvPass convolutions_;
  std::optional<SelectorPass> selector_;
  std::optional<MarkovPass> markov_;

  BlockAttention attention_;  // but for what differs between layers
  StepMemory memory_;
  std::unique_ptr<Buffer> indices_;
  RotationTable rotation_;

  Tensor aux_hidden_;  // [context rows, aux_width]
  Tensor projected_;   // [context rows, hidden]: before hidden_norm
  Tensor features_;    // [context rows, hidden]
  std::vector<Layer> layers_;
  Tensor output_;                 // [block rows, hidden]: the residual stream after the last layer
  Tensor normed_;                 // [block rows, hidden]
  Tensor activation_;             // [block rows, intermediate]
  Tensor labelled_, d_labelled_;  // [label rows, head width]
  Tensor final_hidden_;           // [target rows, hidden]
  Tensor of_target_;              // [label rows, hidden]: those that predict the labels
  LossRows rows_;                 // of those, whose loss it was
  Tensor weights_;                // [1, label rows]
  Tensor d_stream_, d_normed_, d_attended_, d_q_, d_k_, d_v_, d_gate_, d_features_;
  int32_t *ids_ = nullptr, *positions_ = nullptr, *label_rows_ = nullptr, *labels_ = nullptr, *before_ = nullptr,
          *target_rows_ = nullptr;
  std::vector<TokenLoss> losses_;
};

}  // namespace ashlar
