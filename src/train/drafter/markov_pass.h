// SPDX-License-Identifier: Apache-2.0
#pragma once
// Forward and backward of a drafter's Markov head over the labelled rows of a batch, and of the head that rates its
// drafts. With h a row's final hidden state and e the code of the document's own token before its label, the row's
// logits are head h + W2 e, one product of [head W2] and [h; e]: so rows and head have more columns, and the losses of
// logits are what they are without. The rating is sigmoid(w [h; e] + b), whose cross-entropy against the chance that
// the row's draft is accepted, a constant to the gradient, is added to the row's loss. Source: DSpark (arXiv
// 2607.05147; DeepSpec, speculators).

#include <memory>
#include <span>
#include <vector>

#include "device/tensor_room.h"
#include "train/drafter/block_batch.h"
#include "train/drafter/drafter_parameters.h"

namespace ashlar {

class MarkovPass {
 public:
  /// `head`: the target's. `rating_weight`: what the rating's cross-entropy counts next to a row's loss.
  MarkovPass(TrainOps& ops, const TrainShape& shape, const MarkovParameters& parameters, Tensor head,
             double rating_weight);

  void lay_out(TensorRoom& room, int32_t label_rows, DType factor);
  /// Of the head with the outputs next to it, a copy.
  size_t head_bytes() const;

  /// To be called where W2 has changed: a copy of it, once for all pieces of a step.
  void refresh_joined_head();
  /// [head W2]: [vocab, hidden + rank].
  Tensor joined_head() const { return joined_; }
  /// Fills the columns of rows [label rows, hidden + rank] that come after their hidden states with the codes of the
  /// tokens `before`, in device memory.
  void add_codes(Tensor rows, const int32_t* before);

  /// Adds the rating's part to the rows' losses, which have `probability`, and to d_rows, the gradients of each row's
  /// own loss. d_rows may have no rows: not wanted.
  void rate(Tensor rows, std::span<TokenLoss> losses, Tensor d_rows);
  /// Adds to the parameters' gradients those of the sum of the losses, each times its weight, after rate() of the same
  /// rows. The host sorts tokens meanwhile.
  void backward(const LossRows& rows, std::span<const float> weights, const BlockBatch& batch, Tensor d_rows);

 private:
  int32_t hidden() const { return shape_.hidden; }
  int32_t rank() const { return shape_.markov->rank; }
  Tensor codes_of(Tensor rows) const { return rows.columns(hidden(), rank()); }
  void upload(std::span<const float> from, Tensor to) {
    ops_.upload(from.data(), static_cast<std::byte*>(to.data), from.size_bytes());
  }

  TrainOps& ops_;
  const TrainShape& shape_;
  const MarkovParameters& parameters_;
  const Tensor head_;
  const double rating_weight_;
  std::unique_ptr<Buffer> memory_;  // of joined_; null: the head is not copied yet
  Tensor joined_;                   // [vocab, hidden + rank]
  Tensor weights_;                  // [1, label rows]
  Tensor places_;                   // [1, label rows]: of 4 bytes each, 0, 1, 2, ...
  Tensor weighted_;                 // [label rows, rank]: codes times weights
  Tensor ratings_;                  // [label rows + 1, 1]: before bias and sigmoid, then the bias; or their gradients
  Tensor sum_;                      // [1, 1]
  std::vector<float> d_ratings_;    // of each row's own loss
};

}  // namespace ashlar
