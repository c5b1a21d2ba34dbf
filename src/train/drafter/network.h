// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the trainer asks of a network that it trains: tensors, and a pass over the blocks of some documents.

#include <cstdint>
#include <memory>
#include <span>

#include "train/drafter/block_batch.h"
#include "train/drafter/trained_tensors.h"

namespace ashlar {

/// The target's tables, frozen: [vocab, hidden], in the type that products take.
struct FrozenTables {
  Tensor embedding;
  Tensor head;
};

/// Of the labelled rows of a batch, in order.
struct BlockLosses {
  std::span<const TokenLoss> rows;    ///< of their logits
  std::span<const TokenLoss> chosen;  ///< of the selector's choice among them; empty: there is none

  /// What would be drafted.
  std::span<const TokenLoss> drafts() const { return chosen.empty() ? rows : chosen; }
};

class BlockPass {
 public:
  BlockPass() = default;
  BlockPass(const BlockPass&) = delete;
  BlockPass& operator=(const BlockPass&) = delete;
  virtual ~BlockPass() = default;

  /// To be called where the tensors' factors have changed since the last forward().
  virtual void refresh() {}
  /// Valid until the next call. `differentiates`: backward() will follow.
  virtual BlockLosses forward(const BlockBatch& batch, bool differentiates) = 0;
  /// Adds to the tensors' gradients those of the sum of the losses, each times its weight. `chosen`: the weights of
  /// the selector's losses, if there is one.
  virtual void backward(const BlockBatch& batch, std::span<const float> weights, std::span<const float> chosen) = 0;
  /// Memory of a batch of this size, without aux_hidden.
  virtual size_t bytes(int32_t context_rows, int32_t block_rows) const = 0;
  /// The first position of a document at which a block may begin.
  virtual int32_t first_anchor() const { return 0; }
};

struct TrainedNetwork {
  std::unique_ptr<TrainedTensors> tensors;
  std::unique_ptr<BlockPass> pass;  ///< over these
};

}  // namespace ashlar
