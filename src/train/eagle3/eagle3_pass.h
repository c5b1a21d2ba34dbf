// SPDX-License-Identifier: Apache-2.0
#pragma once
// Forward and backward of an EAGLE-3 head in training-time test: the head's layer runs over chains of steps, as when
// serving, and each step reads what the one before left in place of the target's feature; gradients go back through
// all of them. A row sees the context's rows before its chain and those of its own chain up to itself. Source: Li et
// al. 2025 (arXiv 2503.01840).

#include <memory>
#include <optional>
#include <vector>

#include "device/tensor_room.h"
#include "train/drafter/network.h"
#include "train/drafter/rotation_table.h"
#include "train/drafter/step_memory.h"
#include "train/eagle3/eagle3_batch.h"
#include "train/eagle3/eagle3_parameters.h"

namespace ashlar {

class Eagle3Pass final : public BlockPass {
 public:
  /// Types as DrafterPass has them.
  Eagle3Pass(TrainOps& ops, const TrainShape& shape, const Eagle3Parameters& parameters, const FrozenTables& frozen,
             std::optional<DistributionLoss> distribution);

  BlockLosses forward(const BlockBatch& batch, bool differentiates) override;
  void backward(const BlockBatch& batch, std::span<const float> weights, std::span<const float> chosen) override;
  size_t bytes(int32_t context_rows, int32_t block_rows) const override;
  /// Before position 0 there is no feature.
  int32_t first_anchor() const override { return 1; }

 private:
  /// Of one step, [blocks, ...] unless stated.
  struct Step {
    Tensor pairs;     // [blocks, 2 hidden]: both norms side by side
    Tensor keys;      // [blocks, 2 kv_width]: keys, then values
    Tensor q, out;    // [blocks * steps so far, width]: those of this step, the others zeros or of no meaning
    Tensor log_sums;  // [blocks * steps so far, heads]
    Tensor middle;    // the residual stream after attention
    Tensor gate, up;  // [blocks, intermediate]
    Tensor output;    // the residual stream after the layer: the next step's feature
    Tensor d_output;  // and its gradient
    Tensor d_keys;    // [blocks, 2 kv_width]
    const int32_t *ids, *positions, *query_rows;
  };
  struct Sizes {
    int32_t context_rows = 0, blocks = 0, label_rows = 0, target_rows = 0;
  };
  void lay_out(TensorRoom& room, const Sizes& sizes);
  void prepare(const BlockBatch& batch);
  void prepare_indices(const BlockBatch& batch, const Eagle3Batch& rows);
  void find_losses(Tensor d_labelled);
  /// Both norms of rows that hold these tokens and read these features.
  void make_pairs(const int32_t* ids, Tensor features, Tensor pairs);
  void make_keys(Tensor pairs, const int32_t* positions, Tensor keys);
  void step_forward(int32_t s);
  void step_backward(int32_t s);
  void mlp_backward(const Step& step);
  void attention_backward(int32_t s);
  void context_backward();
  /// Of keys and values that are complete: of the pairs, d_pairs_, to which queries' is added if there are any.
  void keys_backward(Tensor d_keys, const int32_t* positions, Tensor pairs, Store store);
  /// Of both norms: that of the features is added to d_features.
  void pairs_backward(const int32_t* ids, Tensor features, Tensor d_features);
  /// The context's keys and, after them, those of the steps up to this one as its attention wants them.
  void place_keys(int32_t s);
  void add_key_gradients(int32_t s);
  BlockAttention layout_of(int32_t s) const;
  Tensor input_of(int32_t s) const { return s == 0 ? first_input_ : steps_[static_cast<size_t>(s - 1)].output; }
  int32_t width() const { return shape_.heads * shape_.head_dim; }
  int32_t kv_width() const { return shape_.kv_heads * shape_.head_dim; }
  Tensor key_half(Tensor keys) const { return keys.columns(0, kv_width()); }
  Tensor value_half(Tensor keys) const { return keys.columns(kv_width(), kv_width()); }
  void norm(Tensor x, const DrafterParameter& p, Tensor out) { ops_.rms_norm(x, p.value.row(0), shape_.eps, out); }
  void norm_backward(Tensor d_out, Tensor x, const DrafterParameter& p, Store store, Tensor d_x) {
    ops_.rms_norm_gradient(d_out, x, p.value.row(0), shape_.eps, store, d_x, p.gradient.row(0));
  }

  TrainOps& ops_;
  const TrainShape shape_;
  const Eagle3Parameters& parameters_;
  const FrozenTables frozen_;
  const std::optional<DistributionLoss> distribution_;
  const int32_t n_steps_;

  StepMemory memory_;
  std::unique_ptr<Buffer> indices_;
  RotationTable rotation_;
  std::vector<BlockContext> contexts_;
  int32_t blocks_ = 0, context_rows_ = 0;

  Tensor aux_hidden_;     // [context rows, aux_width]
  Tensor features_;       // [context rows, hidden]: of the target
  Tensor context_pairs_;  // [context rows, 2 hidden]
  Tensor keys_, d_keys_;  // [context rows + blocks * steps, 2 kv_width]
  Tensor first_input_;    // [blocks, hidden]
  std::vector<Step> steps_;
  Tensor outputs_, d_outputs_;    // [steps * blocks, hidden]: of all steps
  Tensor normed_, d_normed_;      // [steps * blocks, hidden]
  Tensor embedded_, d_embedded_;  // [context rows or blocks, hidden]
  Tensor d_pairs_;                // [context rows or blocks, 2 hidden]
  Tensor q_, d_q_, d_attended_;   // [blocks, width]
  Tensor d_placed_, d_queries_;   // [blocks * steps, width]
  Tensor part_;                   // [context rows or steps * blocks, 2 kv_width]
  Tensor d_context_;              // [context rows, 2 kv_width]
  Tensor d_features_;             // [context rows, hidden]
  Tensor activation_, d_gate_;    // [blocks, intermediate]
  Tensor labelled_, d_labelled_;  // [label rows, hidden]
  Tensor final_hidden_;           // [target rows, hidden]
  Tensor of_target_;              // [label rows, hidden]: those that predict the labels
  Tensor weights_, ones_;         // [1, label rows], [1, blocks]
  const int32_t *context_ids_ = nullptr, *context_positions_ = nullptr, *feature_rows_ = nullptr;
  const int32_t *label_rows_ = nullptr, *labels_ = nullptr, *target_rows_ = nullptr;
  std::vector<TokenLoss> losses_;
};

}  // namespace ashlar
