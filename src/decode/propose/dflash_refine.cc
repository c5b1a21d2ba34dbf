// SPDX-License-Identifier: Apache-2.0
// Drafts of a head that chooses those of a block together, and again in rounds (Jacobi's iteration): in each, a
// position is chosen by the drafts that the round before left before it. It is drawn with its own noise, on which
// nothing before it depends. So what a draft was drawn from is, given those before it, a distribution that rejection
// may ask for, whether the rounds came to rest or not.

#include <algorithm>

#include "decode/propose/dflash.h"

namespace ashlar {

void DflashProposer::refine_drafts(std::span<Block> blocks, SlotTable& slots, Tensor hidden) {
  BlockRefiner& refiner = *drafter_->refiner();
  const int32_t lead = drafter_->config().sample_from_anchor ? 0 : 1;  // rows before that of the first draft
  const auto row_of = [&](const Block& block) { return block.first_output - blocks.front().first_output; };
  const auto list_open = [&] {
    refined_rows_.clear();
    for (const Block& block : blocks) {
      for (int32_t k = block.fixed + 1; k < block.span->width; ++k) {
        refined_rows_.push_back(row_of(block) + lead + k - 1);
      }
    }
    return static_cast<int32_t>(refined_rows_.size());
  };
  places_.clear();
  for (Block& block : blocks) {
    block.fixed = 0;
    block.candidate[0] = block.span->ids[0];
    places_.push_back({row_of(block), block.n_outputs});
  }
  refiner.begin(ops_, hidden, places_);
  const Tensor base = logits_->rows(list_open());
  drafter_->head(refiner.some_of(ops_, hidden, refined_rows_), base);
  ops_.copy(base, refined_->rows(base.rows));
  ask_open(blocks, slots, refined_->rows(base.rows));
  for (Block& block : blocks) block.fixed = 0;  // what nothing was added to was not chosen by this head yet
  for (int32_t round = 0; round < refiner.rounds(); ++round) {
    const int32_t n = list_open();
    if (n == 0) break;
    before_.clear();
    for (const Block& block : blocks) {
      const int32_t token_before = slots[block.span->slot].token_before;
      for (int32_t row = 0; row < block.n_outputs; ++row) {
        const int32_t k = row - lead;  // rows after the last draft's change none
        const int32_t known = k < block.span->width ? block.candidate[std::max(k, 0)] : block.candidate[0];
        before_.push_back(k < 0 && token_before >= 0 ? token_before : known);
      }
    }
    const Tensor logits = refined_->rows(n);
    refiner.correct(ops_, before_, refined_rows_, logits);
    int32_t first = 0, of_base = 0;
    for (const Block& block : blocks) {
      const int32_t drafts = block.span->width - 1, left = drafts - block.fixed;
      if (left > 0) ops_.reduce_add(base.part(of_base + block.fixed, left), logits.part(first, left));
      first += left;
      of_base += drafts;
    }
    ask_open(blocks, slots, logits);
  }
}

void DflashProposer::ask_open(std::span<Block> blocks, SlotTable& slots, Tensor logits) {
  int32_t row = 0;
  for (Block& block : blocks) {
    for (int32_t k = block.fixed + 1; k < block.span->width; ++k, ++row) {
      ask(block, row - k + 1, k, slots[block.span->slot]);
    }
  }
  answer(logits);
  // Up to the first draft that changed all knew what they know now, that one too.
  for (Block& block : blocks) {
    int32_t* const drafts = block.span->ids;
    int32_t k = block.fixed + 1;
    while (k < block.span->width && block.candidate[k] == drafts[k]) ++k;
    block.fixed = std::min(k, block.span->width - 1);
    std::copy(block.candidate + 1, block.candidate + block.span->width, drafts + 1);
  }
}

}  // namespace ashlar
