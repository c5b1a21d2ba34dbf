// SPDX-License-Identifier: Apache-2.0
#include "decode/propose/growing_tree.h"

#include <algorithm>
#include <functional>
#include <tuple>

namespace ashlar {
namespace {

constexpr int32_t kNoNode = -1;  // a draft that has no row: nothing is known of what follows it

}  // namespace

void GrowingTree::reserve(int32_t passes, int32_t beam) {
  nodes_.reserve(1 + static_cast<size_t>(passes) * static_cast<size_t>(beam));
  continuing_.reserve(kMaxWidth + 1);
  branching_.reserve(kMaxWidth + 1);
  candidates_.reserve(static_cast<size_t>(beam) * LikeliestTokens::kMost);
}

void GrowingTree::begin(int32_t last_token, int32_t drafts, int32_t branches) {
  nodes_.clear();
  nodes_.emplace_back().id = last_token;
  newest_ = 0;
  drafts_ = static_cast<size_t>(drafts);
  branches_ = static_cast<size_t>(branches);
  continuing_.clear();
  branching_.clear();
}

void GrowingTree::answer(size_t node, const LikeliestTokens& next) {
  nodes_[node].next = next;
  for (int32_t rank = 0; rank < next.n; ++rank) {
    const float chance = nodes_[node].log_chance + next.log_chance[static_cast<size_t>(rank)];
    if (rank > 0 && chance <= kMinBranchLogChance) break;
    std::vector<float>& list = rank == 0 ? continuing_ : branching_;
    list.insert(std::ranges::upper_bound(list, chance, std::greater<>()), chance);
    if (list.size() > (rank == 0 ? drafts_ : branches_)) list.pop_back();
  }
}

bool GrowingTree::may_be_draft(float chance, bool begins_branch) const {
  const auto likelier = [chance](const std::vector<float>& list) {
    return static_cast<size_t>(std::ranges::lower_bound(list, chance, std::greater<>()) - list.begin());
  };
  const size_t branches = likelier(branching_);
  if (begins_branch && (chance <= kMinBranchLogChance || branches >= branches_)) return false;
  return likelier(continuing_) + branches < drafts_;
}

// What follows a candidate is less likely than the candidate: one that is no draft itself need not be run.
bool GrowingTree::grow(int32_t beam) {
  candidates_.clear();
  for (size_t node = newest_; node < nodes_.size(); ++node) {
    const LikeliestTokens& next = nodes_[node].next;
    for (int32_t rank = 0; rank < next.n; ++rank) {
      const float chance = nodes_[node].log_chance + next.log_chance[static_cast<size_t>(rank)];
      if (!may_be_draft(chance, rank > 0)) break;
      candidates_.push_back({chance, static_cast<int32_t>(node), rank});
    }
  }
  newest_ = nodes_.size();
  std::ranges::sort(candidates_, [](const Candidate& a, const Candidate& b) {
    return std::tie(b.log_chance, a.parent, a.rank) < std::tie(a.log_chance, b.parent, b.rank);
  });
  if (candidates_.size() > static_cast<size_t>(beam)) candidates_.resize(static_cast<size_t>(beam));
  for (const Candidate& candidate : candidates_) {
    Node& parent = nodes_[static_cast<size_t>(candidate.parent)];
    const auto rank = static_cast<size_t>(candidate.rank);
    parent.child[rank] = static_cast<int32_t>(nodes_.size());
    Node node;
    node.id = parent.next.ids[rank];
    node.parent = candidate.parent;
    node.depth = parent.depth + 1;
    node.log_chance = candidate.log_chance;
    nodes_.push_back(node);
  }
  return !candidates_.empty();
}

const LikeliestTokens& GrowingTree::at(int32_t /*depth*/, int32_t before) {
  static constexpr LikeliestTokens kNone;
  return before == kNoNode ? kNone : nodes_[static_cast<size_t>(before)].next;
}

int32_t GrowingTree::root(int32_t /*last_token*/) { return 0; }

int32_t GrowingTree::after(int32_t before, size_t rank, int32_t /*token*/) {
  if (before == kNoNode) return kNoNode;
  const int32_t child = nodes_[static_cast<size_t>(before)].child[rank];
  return child == 0 ? kNoNode : child;
}

}  // namespace ashlar
