// SPDX-License-Identifier: Apache-2.0
#include "decode/propose/draft_tree.h"

#include <algorithm>
#include <cmath>

namespace ashlar {

int32_t branch_pages(int32_t branches, int32_t width, int32_t sequences) {
  constexpr int32_t kTrees = 16;  // at a time: many sequences together draft little
  if (branches == 0) return 0;
  return (width * std::min(sequences, kTrees) + kScratchSlotsPerPage - 1) / kScratchSlotsPerPage;
}

// Paths come in order, so that what stays is a tree.
void ChainSpan::keep_likeliest(int32_t n) {
  if (n >= width) return;
  int32_t row_of[kMaxWidth] = {};  // 0: left out; and the last token
  int32_t kept = 1;
  for (int32_t k = 1; k <= n_chances; ++k) {
    if (order[k] == 0) continue;
    if (kept++ < n) {
      row_of[order[k]] = 1;
    } else {
      order[k] = 0;
    }
  }
  int32_t rows = 1;
  for (int32_t r = 1; r < width; ++r) {
    if (row_of[r] == 0) continue;
    row_of[r] = rows;
    ids[rows] = ids[r];
    parents[rows] = row_of[parents[r]];
    ++rows;
  }
  for (int32_t k = 1; k <= n_chances; ++k) order[k] = row_of[order[k]];
  width = rows;
}

bool DraftTreeBuilder::less(const Path& a, const Path& b) { return a.log_chance < b.log_chance; }

DraftTreeBuilder::DraftTreeBuilder() {
  open_.reserve(2 * kMaxWidth);
  nodes_.reserve(kMaxWidth);
  stack_.reserve(kMaxWidth);
  row_of_.reserve(kMaxWidth);
}

// A path that was taken makes two more possible: the next candidate in its last place, which is a branch, and the best
// one after it. Both are less likely than the path itself, so that paths come in order.
void DraftTreeBuilder::expand(CandidateSource& candidates, int32_t deepest, const Path& path, int32_t node,
                              bool may_branch) {
  const auto push = [&](const Path& next) {
    open_.push_back(next);
    std::push_heap(open_.begin(), open_.end(), less);
  };
  const LikeliestTokens& here = candidates.at(std::min(path.depth, deepest), path.before);
  const auto rank = static_cast<size_t>(path.rank);
  const int32_t token = here.ids[rank];
  if (may_branch && path.rank + 1 < here.n) {
    const float chance = path.log_chance - here.log_chance[rank] + here.log_chance[rank + 1];
    if (chance > kMinBranchLogChance) push({chance, path.parent, path.depth, path.rank + 1, path.before});
  }
  const int32_t before = candidates.after(path.before, rank, token);
  const LikeliestTokens& next = candidates.at(std::min(path.depth + 1, deepest), before);
  if (next.n > 0) push({path.log_chance + next.log_chance[0], node, path.depth + 1, 0, before});
}

void DraftTreeBuilder::build(CandidateSource& candidates, int32_t deepest, int32_t most, ChainSpan& span) {
  open_.clear();
  nodes_.assign(1, {span.ids[0], -1, 0, 0, 0, 0});
  int32_t branches = 0;
  int32_t predicted = 0;
  const int32_t root = candidates.root(span.ids[0]);
  const LikeliestTokens& first = candidates.at(1, root);
  if (first.n > 0) open_.push_back({first.log_chance[0], 0, 1, 0, root});
  while (!open_.empty() && predicted < most) {
    std::pop_heap(open_.begin(), open_.end(), less);
    const Path path = open_.back();
    open_.pop_back();
    if (path.rank > 0 && branches++ >= span.branches) continue;
    const auto node = static_cast<int32_t>(nodes_.size());
    const bool is_real = node < span.width && path.depth <= deepest && path.parent >= 0;
    ++predicted;
    span.chances[predicted] = std::exp(path.log_chance);
    span.order[predicted] = is_real ? node : 0;
    if (is_real) {
      const int32_t id = candidates.at(path.depth, path.before).ids[static_cast<size_t>(path.rank)];
      nodes_.push_back({id, path.parent, path.depth, 0, 0, 0});
      Node& parent = nodes_[static_cast<size_t>(path.parent)];
      if (parent.first_child == 0) {
        parent.first_child = node;
      } else {
        nodes_[static_cast<size_t>(parent.last_child)].next = node;
      }
      parent.last_child = node;
    }
    // The chances of what has no row any more need no further look at the drafter's logits.
    const int32_t seen = node < span.width ? deepest : std::min(deepest, path.depth);
    expand(candidates, seen, path, is_real ? node : -1, branches < span.branches);
  }
  span.n_chances = predicted;
  span.width = static_cast<int32_t>(nodes_.size());
  write_rows(span.width, span);
}

// Depth first, so that the rows of a branch are consecutive.
void DraftTreeBuilder::write_rows(int32_t n, ChainSpan& span) {
  row_of_.assign(static_cast<size_t>(n), 0);
  stack_.clear();
  int32_t row = 0;
  for (int32_t node = nodes_[0].first_child; node != 0;) {
    const Node& at = nodes_[static_cast<size_t>(node)];
    ++row;
    row_of_[static_cast<size_t>(node)] = row;
    span.ids[row] = at.id;
    span.parents[row] = row_of_[static_cast<size_t>(at.parent)];
    if (at.next != 0) stack_.push_back(at.next);
    node = at.first_child;
    if (node == 0 && !stack_.empty()) {
      node = stack_.back();
      stack_.pop_back();
    }
  }
  for (int32_t k = 1; k <= span.n_chances; ++k) span.order[k] = row_of_[static_cast<size_t>(span.order[k])];
}

}  // namespace ashlar
