// SPDX-License-Identifier: Apache-2.0
// Drafts of a head that chooses one after the other, and what it thinks of them.

#include <algorithm>

#include "decode/propose/dflash.h"

namespace ashlar {

// Drafts whose logits depend on the one before, of all blocks together, position by position.
void DflashProposer::choose_in_turn(std::span<Block> blocks, SlotTable& slots, Tensor hidden, Tensor logits) {
  const auto row_of = [&](const Block& block) { return block.first_output - blocks.front().first_output; };
  for (int32_t k = 1; k < options_.width; ++k) {
    steps_.clear();
    for (Block& block : blocks) {
      if (k >= block.span->width) continue;
      const auto place = static_cast<int32_t>(&block - blocks.data());
      steps_.push_back({row_of(block) + k - 1, block.span->ids[k - 1], place, k});
      ask(block, row_of(block), k, slots[block.span->slot]);
    }
    if (steps_.empty()) break;
    drafter_->in_turn()->add(ops_, hidden, logits, steps_);
    answer(logits);
    for (Block& block : blocks) {
      if (k < block.span->width) block.span->ids[k] = block.candidate[k];
    }
  }
  if (drafter_->confidence() != nullptr) rate_drafts(blocks, hidden);
}

// All drafts of all blocks at once, when they are there: of each the chance that it is accepted with all before it. The
// last chance continues beyond the block's rows, so that narrow blocks do not look like poor ones.
void DflashProposer::rate_drafts(std::span<Block> blocks, Tensor hidden) {
  if (std::ranges::none_of(blocks, &Block::rated)) return;
  before_.clear();
  for (const Block& block : blocks) before_.insert(before_.end(), block.span->ids, block.span->ids + block.n_outputs);
  const std::span<const float> chances = drafter_->confidence()->chances(ops_, hidden, before_, drafter_->codes());
  size_t first = 0;
  for (const Block& block : blocks) {
    const std::span<const float> own = chances.subspan(first, static_cast<size_t>(block.n_outputs));
    first += own.size();
    if (!block.rated || own.empty()) continue;
    ChainSpan& span = *block.span;
    float all = 1;
    for (int32_t k = 1; k < options_.width; ++k) {
      const bool has_row = k <= block.n_outputs;
      all *= has_row ? own[static_cast<size_t>(k) - 1] : own.back();
      span.chances[k] = all;
      span.order[k] = has_row ? k : 0;
    }
    span.n_chances = options_.width - 1;
  }
}

}  // namespace ashlar
