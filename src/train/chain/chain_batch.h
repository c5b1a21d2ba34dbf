// SPDX-License-Identifier: Apache-2.0
#pragma once
// The rows of a batch as a head that drafts one token at a time reads them. A block that begins at position p of a
// document becomes a chain of block - 1 steps: step s holds the document's token at p + s, stands there and says what
// comes after it, which is slot s + 1 of the block. The first step reads the target's feature of position p - 1, the
// others what the step before left. Rows of a step come together, one for each block.

#include <vector>

#include "train/drafter/block_batch.h"

namespace ashlar {

struct ChainBatch {
  ChainBatch(const BlockBatch& batch, int32_t steps);

  int32_t blocks = 0;
  int32_t steps = 0;
  /// What a chain sees besides itself: the rows before its first position. A row of the context is that of the position
  /// after the feature it reads, so that row t stands at position t + 1.
  std::vector<BlockContext> contexts;
  std::vector<int32_t> context_ids;        ///< [context rows]
  std::vector<int32_t> context_positions;  ///< [context rows]
  std::vector<int32_t> feature_rows;       ///< [blocks]: the row of the context whose feature the first step reads
  std::vector<int32_t> ids, positions;     ///< [steps, blocks]
  /// [steps][blocks, steps so far]: where the attention of a step finds each block's query, after those of the steps
  /// before, whose keys it sees.
  std::vector<std::vector<int32_t>> query_rows;
  std::vector<int32_t> label_rows;  ///< of [steps, blocks], those with a label, in the order of the batch's labels
};

}  // namespace ashlar
