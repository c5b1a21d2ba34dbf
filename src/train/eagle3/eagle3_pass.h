// SPDX-License-Identifier: Apache-2.0
#pragma once
// Forward and backward of an EAGLE-3 head in training-time test: the head's layer runs over chains of steps, as when
// serving, and each step reads what the one before left in place of the target's feature; gradients go back through
// all of them. A row sees the context's rows before its chain and those of its own chain up to itself. Source: Li et
// al. 2025 (arXiv 2503.01840).

#include "train/chain/chain_pass.h"
#include "train/eagle3/eagle3_parameters.h"

namespace ashlar {

class Eagle3Pass final : public ChainPass {
 public:
  Eagle3Pass(TrainOps& ops, const TrainShape& shape, const Eagle3Parameters& parameters, const FrozenTables& frozen,
             std::optional<DistributionLoss> distribution);

  size_t bytes(int32_t context_rows, int32_t block_rows) const override;

 private:
  void lay_out(TensorRoom& room, const Sizes& sizes) override;
  void context_forward() override;
  void step_forward(int32_t s) override;
  void states_forward() override { norm(outputs_, parameters_.norm, states_); }
  void states_backward() override {
    norm_backward(d_states_, outputs_, parameters_.norm, Store::kOverwrite, d_outputs_);
  }
  void step_backward(int32_t s) override;
  void context_backward() override;

  /// Both norms of rows that hold these tokens and read these features.
  void make_pairs(const int32_t* ids, Tensor features, Tensor pairs);
  void make_keys(Tensor pairs, const int32_t* positions, Tensor keys);
  /// Of keys and values that are complete: of the pairs, d_pairs_, to which queries' is added if there are any.
  void keys_backward(Tensor d_keys, const int32_t* positions, Tensor pairs, Store store);
  /// Of both norms: that of the features is added to d_features.
  void pairs_backward(const int32_t* ids, Tensor features, Tensor d_features);
  /// What a step reads is the stream that the one before left.
  Tensor input_of(int32_t s) const { return s == 0 ? first_input_ : step(s - 1).output; }

  const Eagle3Parameters& parameters_;
  Tensor features_, d_features_;  // [context rows, hidden]: of the target
  Tensor context_pairs_;          // [context rows, 2 hidden]: both norms side by side
  std::vector<Tensor> pairs_;     // [blocks, 2 hidden] of each step
  Tensor first_input_;            // [blocks, hidden]
  Tensor embedded_, d_embedded_;  // [context rows or blocks, hidden]
  Tensor d_pairs_;                // [context rows or blocks, 2 hidden]
};

}  // namespace ashlar
