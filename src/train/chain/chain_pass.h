// SPDX-License-Identifier: Apache-2.0
#pragma once
// What forward and backward of heads that draft one token at a time have in common: a layer that runs step by step over
// the chains of a batch (ChainBatch), each step over the ones before, with gradients through all of them. Keys of rows
// before a chain are made of the target's features, those of the chain's rows of what its steps left.

#include <memory>
#include <optional>
#include <vector>

#include "device/tensor_room.h"
#include "train/chain/chain_batch.h"
#include "train/drafter/network.h"
#include "train/drafter/rotation_table.h"
#include "train/drafter/step_memory.h"
#include "train/drafter/trained_tensors.h"

namespace ashlar {

/// The MLP of the layer; the norm stands before it.
struct ChainMlp {
  const DrafterParameter &norm, &gate, &up, &down;
};

class ChainPass : public BlockPass {
 public:
  BlockLosses forward(const BlockBatch& batch, bool differentiates) override;
  void backward(const BlockBatch& batch, std::span<const float> weights, std::span<const float> chosen) override;
  /// Before position 0 there is no feature.
  int32_t first_anchor() const override { return 1; }

 protected:
  /// Types as DrafterPass has them. `rotary_dim`: what is rotated of a head, from its beginning on.
  ChainPass(TrainOps& ops, const TrainShape& shape, DType factor, int32_t rotary_dim, const ChainMlp& mlp,
            const FrozenTables& frozen, std::optional<DistributionLoss> distribution);

  /// Of one step, [blocks, ...] unless stated.
  struct Step {
    Tensor keys;      // [blocks, 2 kv_width]: keys, then values
    Tensor q, out;    // [blocks * steps so far, width]: those of this step, the others zeros or of no meaning
    Tensor log_sums;  // [blocks * steps so far, heads]
    Tensor middle;    // the residual stream after attention
    Tensor gate, up;  // [blocks, intermediate]
    Tensor output;    // the residual stream after the layer
    Tensor d_output;  // and its gradient
    Tensor d_keys;    // [blocks, 2 kv_width]
    Tensor state;     // after the last norm, of which logits are made
    Tensor d_state;
    const int32_t *ids, *positions, *query_rows;
  };
  struct Sizes {
    int32_t context_rows = 0, blocks = 0, label_rows = 0, target_rows = 0;

    /// Of a batch of this size without labels left out.
    static Sizes most(int32_t context_rows, int32_t block_rows, int32_t block) {
      return {context_rows, block_rows / block, block_rows, context_rows};
    }
  };

  virtual void lay_out(TensorRoom& room, const Sizes& sizes);
  /// Features of the context and its keys, keys_.narrow(context_rows_).
  virtual void context_forward() = 0;
  /// To step.output; `state` too where the next step reads it.
  virtual void step_forward(int32_t s) = 0;
  /// From all states, if the steps do not do it.
  virtual void states_forward() {}
  virtual void states_backward() {}
  /// With the gradients of what is after the step in d_output or d_state, to those of what is before it.
  virtual void step_backward(int32_t s) = 0;
  /// With d_context_, that of the context's keys.
  virtual void context_backward() = 0;

  /// Puts the step's queries, q_, and its keys where they belong, and attends: attended(s).
  void attend(int32_t s);
  /// One row of each block.
  Tensor attended(int32_t s) const;
  /// Of the same: d_q_, before it is rotated back; what attention says of keys is added to those of all steps up to it.
  void attend_backward(int32_t s, Tensor d_attended);
  /// step.middle to step.output.
  void mlp_forward(const Step& step);
  /// d_output becomes the gradient of the stream in the layer's middle.
  void mlp_backward(const Step& step);

  int32_t width() const { return shape_.heads * shape_.head_dim; }
  int32_t kv_width() const { return shape_.kv_heads * shape_.head_dim; }
  Step& step(int32_t s) { return steps_[static_cast<size_t>(s)]; }
  const Step& step(int32_t s) const { return steps_[static_cast<size_t>(s)]; }
  Tensor key_half(Tensor keys) const { return keys.columns(0, kv_width()); }
  Tensor value_half(Tensor keys) const { return keys.columns(kv_width(), kv_width()); }
  /// Rows of heads, forwards or back.
  void rotate(Tensor rows, const int32_t* positions, bool back);
  void norm(Tensor x, const DrafterParameter& p, Tensor out) { ops_.rms_norm(x, p.value.row(0), shape_.eps, out); }
  void norm_backward(Tensor d_out, Tensor x, const DrafterParameter& p, Store store, Tensor d_x) {
    ops_.rms_norm_gradient(d_out, x, p.value.row(0), shape_.eps, store, d_x, p.gradient.row(0));
  }
  void add(Tensor part, Tensor sum) {
    ops_.combine(1, sum.row(0), 1, part.row(0), int64_t{sum.rows} * sum.cols, sum.row(0));
  }

  TrainOps& ops_;
  const TrainShape shape_;
  const DType factor_;
  const FrozenTables frozen_;
  const std::optional<DistributionLoss> distribution_;
  const int32_t n_steps_;

  int32_t blocks_ = 0, context_rows_ = 0;
  Tensor aux_hidden_;            // [context rows, aux_width]
  Tensor keys_, d_keys_;         // [context rows + blocks * steps, 2 kv_width]
  Tensor d_context_;             // [context rows, 2 kv_width]
  Tensor outputs_, d_outputs_;   // [steps * blocks, hidden]: of all steps
  Tensor states_, d_states_;     // [steps * blocks, hidden]
  Tensor q_, d_q_, d_attended_;  // [blocks, width]
  Tensor normed_, d_normed_;     // [context rows or blocks, hidden]: of no meaning between two calls
  Tensor ones_;                  // [1, blocks]
  const int32_t *context_ids_ = nullptr, *context_positions_ = nullptr, *feature_rows_ = nullptr;

 private:
  void prepare(const BlockBatch& batch);
  void prepare_indices(const BlockBatch& batch, const ChainBatch& rows);
  void find_losses(Tensor d_labelled);
  /// The context's keys and, after them, those of the steps up to this one as its attention wants them.
  void place_keys(int32_t s);
  void add_key_gradients(int32_t s);
  BlockAttention layout_of(int32_t s) const;

  const int32_t rotary_dim_;
  const ChainMlp mlp_;
  StepMemory memory_;
  std::unique_ptr<Buffer> indices_;
  RotationTable rotation_;
  std::vector<BlockContext> contexts_;
  std::vector<Step> steps_;
  Tensor d_placed_, d_queries_;   // [blocks * steps, width]
  Tensor part_;                   // [context rows or steps * blocks, 2 kv_width]
  Tensor activation_, d_gate_;    // [blocks, intermediate]
  Tensor labelled_, d_labelled_;  // [label rows, hidden]
  Tensor final_hidden_;           // [target rows, hidden]
  Tensor of_target_;              // [label rows, hidden]: those that predict the labels
  Tensor weights_;                // [1, label rows]
  const int32_t *label_rows_ = nullptr, *labels_ = nullptr, *target_rows_ = nullptr;
  std::vector<TokenLoss> losses_;
};

}  // namespace ashlar
