// SPDX-License-Identifier: Apache-2.0
// One pass of a head with a mask: the last token's row reads what the target left, the rows after it the mask's
// feature, each sees those before it, and row k says draft k + 1, whatever the drafts before it will be.

#include <algorithm>

#include "decode/propose/autoregressive.h"

namespace ashlar {
namespace {

/// The positions of one block, whose candidates do not depend on each other.
class MaskedCandidates final : public CandidateSource {
 public:
  explicit MaskedCandidates(const LikeliestTokens* likeliest) : likeliest_(likeliest) {}
  const LikeliestTokens& at(int32_t depth, int32_t /*before*/) override { return likeliest_[depth - 1]; }

 private:
  const LikeliestTokens* likeliest_;
};

}  // namespace

void AutoregressiveProposer::propose_masked(std::span<ChainSpan> spans, SlotTable& slots) {
  blocks_.clear();
  int32_t rows = 0;
  for (ChainSpan& span : spans) {
    if (span.width < 2 || !span.proposes) continue;
    const bool tree = may_branch(span, slots[span.slot]);
    span.draft_rows = tree ? std::max(span.draft_rows, span.width) : span.width;
    blocks_.push_back({&span, rows, tree});
    rows += span.draft_rows - 1;
  }
  if (blocks_.empty()) return;
  const Tensor hidden = run_masked_pass().hidden;
  choose_masked_chains(hidden, slots);
  grow_masked_trees(hidden, slots);
}

DraftHead::Output AutoregressiveProposer::run_masked_pass() {
  rows_.clear();
  for (const MaskedBlock& block : blocks_) rows_.push_back(block.span->slot);
  const Tensor known = head_->features(select(newest_, rows_, aux_));
  ops_.copy(known, known_features_.narrow(known.rows));
  batch_->clear();
  rows_.clear();
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const ChainSpan& span = *blocks_[i].span;
    batch_->begin_sequence(span.pages, std::max(span.context_begin, std::min(span.start, 1)));
    for (int32_t r = 0; r + 1 < span.draft_rows; ++r) {
      batch_->add_row(r == 0 ? span.ids[0] : head_->mask_id(), span.start + r, span.start + r + 1);
      batch_->want_output();
      rows_.push_back(r == 0 ? static_cast<int32_t>(i) : known_features_.rows - 1);
    }
  }
  wanted_.upload(rows_);
  const Tensor features = features_.narrow(batch_->n());
  ops_.gather_rows(known_features_, wanted_.device(), features);
  return head_->forward(features, *batch_, *kv_);
}

// Position by position, since penalties count the drafts before.
void AutoregressiveProposer::choose_masked_chains(Tensor hidden, SlotTable& slots) {
  for (int32_t k = 1; k < max_width(); ++k) {
    drafting_.clear();
    rows_.clear();
    for (const MaskedBlock& block : blocks_) {
      if (block.tree || block.span->width <= k) continue;
      drafting_.push_back(block.span);
      rows_.push_back(block.first_row + k - 1);
    }
    if (drafting_.empty()) return;
    choose(k, select(hidden, rows_, features_), slots);  // the pass has read the features
  }
}

void AutoregressiveProposer::grow_masked_trees(Tensor hidden, SlotTable& slots) {
  requests_.clear();
  rows_.clear();
  const auto answer = [&] {
    if (rows_.empty()) return;
    const Tensor logits = logits_->rows(static_cast<int32_t>(rows_.size()));
    head_->head(select(hidden, rows_, features_), logits);
    const auto choices = std::span(choices_).first(requests_.size());
    ops_.choose(logits, requests_, choices);
    for (size_t i = 0; i < choices.size(); ++i) likeliest_[static_cast<size_t>(rows_[i])] = choices[i].likeliest;
    requests_.clear();
    rows_.clear();
  };
  for (const MaskedBlock& block : blocks_) {
    if (!block.tree) continue;
    const Slot& slot = slots[block.span->slot];
    for (int32_t k = 1; k < block.span->draft_rows; ++k) {
      if (static_cast<int32_t>(rows_.size()) == logits_->capacity()) answer();
      RowRequest& request = requests_.emplace_back();
      request.row = static_cast<int32_t>(rows_.size());
      request.pick = Pick::kLikeliest;
      request.position = block.span->start + k;
      request.params = &slot.params;
      request.seen.counts = &slot.counts;
      request.id_map = head_->id_map();
      rows_.push_back(block.first_row + k - 1);
    }
  }
  answer();
  for (const MaskedBlock& block : blocks_) {
    if (!block.tree) continue;
    ChainSpan& span = *block.span;
    span.width = span.most;
    MaskedCandidates candidates(likeliest_.data() + block.first_row);
    builder_.build(candidates, span.draft_rows - 1, max_width() - 1, span);
  }
}

}  // namespace ashlar
