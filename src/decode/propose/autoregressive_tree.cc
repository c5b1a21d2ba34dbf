// SPDX-License-Identifier: Apache-2.0
// Trees of a head that drafts one token at a time. K and V of the last token's row go to its page, those of nodes to
// scratch slots, since several of them may stand at one position.

#include <algorithm>

#include "decode/propose/autoregressive.h"
#include "decode/propose/draft_context.h"

namespace ashlar {

void AutoregressiveProposer::start_trees(const StepLimits& limits, const KvMemory& kv) {
  const int64_t most = DraftContext::window_pages(options_.window, max_width(), limits.max_slots);
  const int64_t pages = most > 0 ? std::min<int64_t>(kv.pages(), most) : kv.pages();
  scratch_begin_ = static_cast<int32_t>(pages) * kScratchSlotsPerPage;
  scratch_end_ = scratch_begin_ + spare_pages(limits.max_slots) * kScratchSlotsPerPage;
  // A tree has two drafts at least, and a pass over those of the first.
  const int32_t trees = std::min(limits.max_slots, (scratch_end_ - scratch_begin_) / options_.beam());
  trees_.resize(static_cast<size_t>(trees));
  for (Tree& tree : trees_) tree.nodes.reserve(max_width() - 1, options_.beam());
  asked_.reserve(kLogitRows);
}

bool AutoregressiveProposer::takes_tree(ChainSpan& span, const Slot& slot) {
  if (n_trees_ == trees_.size() || !may_branch(span, slot)) return false;
  span.draft_rows = std::max(span.draft_rows, span.width);
  const int32_t passes = std::min(span.draft_rows, span.most) - 1;
  const int32_t slots = (passes - 1) * options_.beam();
  if (slots > scratch_end_ - free_scratch_) return false;
  Tree& tree = trees_[n_trees_++];
  tree.scratch = free_scratch_;
  free_scratch_ += slots;
  tree.span = &span;
  tree.passes = passes;
  tree.nodes.begin(span.ids[0], span.most - 1, span.branches);
  return true;
}

void AutoregressiveProposer::propose_trees(SlotTable& slots) {
  if (n_trees_ == 0) return;
  const auto trees = std::span(trees_).first(n_trees_);
  rows_.clear();
  for (const Tree& tree : trees) rows_.push_back(tree.span->slot);
  Tensor features = head_->features(select(newest_, rows_, aux_));
  for (int32_t pass = 1;; ++pass) {
    fill_tree_batch();
    const DraftHead::Output out = head_->forward(features, *batch_, *kv_);
    ask_of_nodes(out.hidden, slots);
    rows_.clear();
    for (Tree& tree : trees) {
      if (pass >= tree.passes || !tree.nodes.grow(options_.beam())) {
        tree.passes = 0;
        continue;
      }
      std::vector<GrowingTree::Node>& nodes = tree.nodes.nodes();
      for (size_t i = tree.nodes.newest(); i < nodes.size(); ++i) {
        rows_.push_back(nodes[static_cast<size_t>(nodes[i].parent)].row);
        nodes[i].scratch_slot = tree.scratch++;
      }
    }
    if (rows_.empty()) break;
    features = select(out.features, rows_, features_);
  }
  for (Tree& tree : trees) {
    ChainSpan& span = *tree.span;
    span.width = span.most;
    builder_.build(tree.nodes, kMaxWidth, max_width() - 1, span);
  }
}

void AutoregressiveProposer::fill_tree_batch() {
  batch_->clear();
  for (Tree& tree : std::span(trees_).first(n_trees_)) {
    if (tree.passes == 0) continue;
    const ChainSpan& span = *tree.span;
    std::vector<GrowingTree::Node>& nodes = tree.nodes.nodes();
    batch_->begin_sequence(span.pages, std::max(span.context_begin, std::min(span.start, 1)));
    for (size_t i = tree.nodes.newest(); i < nodes.size(); ++i) {
      GrowingTree::Node& node = nodes[i];
      node.row = batch_->n();
      if (i == 0) {
        batch_->add_row(node.id, span.start, span.start + 1);
      } else {
        int32_t path[kMaxWidth];
        int32_t n = 0;
        for (size_t at = i; at > 0; at = static_cast<size_t>(nodes[at].parent)) path[n++] = nodes[at].scratch_slot;
        batch_->begin_branch(span.start + 1);
        while (n > 0) batch_->add_branch_slot(path[--n]);
        batch_->add_in_scratch_slot(node.id, span.start + node.depth, node.scratch_slot);
      }
      batch_->want_output();
    }
  }
}

// With the noise of the position that the candidates are for. Penalties count what was said, and not the path.
void AutoregressiveProposer::ask_of_nodes(Tensor hidden, SlotTable& slots) {
  int32_t first = 0;
  const auto answer = [&](int32_t end) {
    if (end == first) return;
    const Tensor logits = logits_->rows(end - first);
    head_->head(hidden.part(first, end - first), logits);
    const auto choices = std::span(choices_).first(requests_.size());
    ops_.choose(logits, requests_, choices);
    for (size_t i = 0; i < choices.size(); ++i) {
      trees_[asked_[i].tree].nodes.answer(asked_[i].node, choices[i].likeliest);
    }
    requests_.clear();
    asked_.clear();
    first = end;
  };
  requests_.clear();
  asked_.clear();
  for (size_t t = 0; t < n_trees_; ++t) {
    Tree& tree = trees_[t];
    if (tree.passes == 0) continue;
    const Slot& slot = slots[tree.span->slot];
    for (size_t i = tree.nodes.newest(); i < tree.nodes.nodes().size(); ++i) {
      const GrowingTree::Node& node = tree.nodes.nodes()[i];
      if (node.row - first == logits_->capacity()) answer(node.row);
      RowRequest& request = requests_.emplace_back();
      asked_.push_back({t, i});
      request.row = node.row - first;
      request.pick = Pick::kLikeliest;
      request.position = tree.span->start + node.depth + 1;
      request.params = &slot.params;
      request.seen.counts = &slot.counts;
      request.id_map = head_->id_map();
    }
  }
  answer(hidden.rows);
}

}  // namespace ashlar
