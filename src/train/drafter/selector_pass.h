// SPDX-License-Identifier: Apache-2.0
#pragma once
// Forward and backward of a drafter's candidate selector over the labelled rows of a batch: cross-entropy of the scores
// of the likeliest tokens, each after the document's own token before it. Source: DFlash2 (z-lab/dflash; speculators).

#include <span>
#include <vector>

#include "device/tensor_room.h"
#include "train/drafter/block_batch.h"
#include "train/drafter/drafter_parameters.h"

namespace ashlar {

class SelectorPass {
 public:
  /// `head`: the target's, of which logits are made.
  SelectorPass(TrainOps& ops, const TrainShape& shape, const SelectorParameters& parameters, Tensor head)
      : ops_(ops), shape_(shape), parameters_(parameters), head_(head) {}

  void lay_out(TensorRoom& room, int32_t label_rows);
  /// Where a loss is to leave the likeliest tokens of the labelled rows, before forward().
  Candidates candidates() const;

  /// Losses of the rows, valid until the next call. hidden: [label rows, hidden], what logits are made of. labels and
  /// before, the tokens before them: in device memory.
  std::span<const TokenLoss> forward(Tensor hidden, const int32_t* labels, const int32_t* before);
  /// Gradients of the sum of the losses, each times its weight: adds the projection's to the parameters', and to
  /// d_normed [block rows, hidden] what comes through the hidden states of the labelled rows. label_rows: which of them
  /// those are, in device memory.
  void backward(const int32_t* label_rows, std::span<const float> weights, Tensor d_normed);
  /// After that adds those of the tables of codes, which no other gradient waits for. The host sorts tokens meanwhile.
  void backward_codes(const BlockBatch& batch);

 private:
  TrainOps& ops_;
  const TrainShape& shape_;
  const SelectorParameters& parameters_;
  const Tensor head_;
  ChoosingRows rows_;
  CandidateGradients gradients_;
  Tensor ids_, logits_;         // [label rows, candidates]: of 4 bytes each
  Tensor projected_;            // [label rows, rank]
  Tensor weights_;              // [2, label rows]: the weights, and what d_normed multiplies
  std::vector<int32_t> found_;  // ids_, for the host's order of them
  std::vector<TokenLoss> losses_;
};

}  // namespace ashlar
