// SPDX-License-Identifier: Apache-2.0
// Drafts of a head that chooses among the likeliest tokens of each row by how well neighbours fit.

#include "decode/propose/dflash.h"

namespace ashlar {

bool DflashProposer::sees_blocks() const {
  const CandidateHead* const selector = drafter_->selector();
  return selector != nullptr && selector->sees_blocks();
}

Tensor DflashProposer::features_before(std::span<const Block> blocks) {
  host_block_slots_.clear();
  for (const Block& block : blocks) host_block_slots_.push_back(block.span->slot);
  block_slots_.upload(host_block_slots_);
  const Tensor rows = before_rows_.narrow(static_cast<int32_t>(blocks.size()));
  ops_.gather_rows(newest_, block_slots_.device(), rows);
  return drafter_->features(rows);
}

void DflashProposer::walk_candidates(std::span<Block> blocks, SlotTable& slots, Tensor hidden, Tensor logits) {
  const auto row_of = [&](const Block& block) { return block.first_output - blocks.front().first_output; };
  begins_.clear();
  for (const Block& block : blocks) begins_.push_back({row_of(block), block.span->ids[0]});
  const Tensor features = sees_blocks() ? features_before(blocks) : Tensor{};
  const SelectedEdges edges = drafter_->selector()->score(ops_, {hidden, logits, begins_, features});
  for (const Block& block : blocks) {
    ChainSpan& span = *block.span;
    walk_->begin(edges, row_of(block), span, slots[span.slot]);
    if (block.tree) {
      builder_.build(*walk_, block.n_outputs, options_.width - 1, span);
    } else {
      Buffer* const distributions = distributions_.of(span.slot);
      walk_->fill_chain(span, distributions == nullptr ? nullptr : reinterpret_cast<float*>(distributions->data()));
    }
  }
}

}  // namespace ashlar
