// SPDX-License-Identifier: Apache-2.0
#include "train/chain/chain_batch.h"

#include "base/check.h"

namespace ashlar {

ChainBatch::ChainBatch(const BlockBatch& batch, int32_t of_chain)
    : blocks(static_cast<int32_t>(batch.blocks.size())), steps(of_chain), context_ids(batch.next) {
  const int32_t block = steps + 1;
  for (int32_t t = 0; t < batch.context_rows; ++t) {
    context_positions.push_back(batch.positions[static_cast<size_t>(t)] + 1);
  }
  for (const BlockContext& at : batch.blocks) {
    ASHLAR_CHECK(at.n > 0);
    contexts.push_back({at.first, at.n - 1});
    feature_rows.push_back(at.first + at.n - 1);
  }
  for (int32_t step = 0; step < steps; ++step) {
    std::vector<int32_t>& queries = query_rows.emplace_back();
    for (int32_t b = 0; b < blocks; ++b) {
      const auto slot = static_cast<size_t>(b * block + step);
      ids.push_back(batch.texts[slot]);
      positions.push_back(batch.positions[static_cast<size_t>(batch.context_rows) + slot]);
      queries.push_back(b * (step + 1) + step);
    }
  }
  for (const int32_t row : batch.label_rows) label_rows.push_back((row % block - 1) * blocks + row / block);
}

}  // namespace ashlar
