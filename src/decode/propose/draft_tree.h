// SPDX-License-Identifier: Apache-2.0
#pragma once
// A tree of drafts from the distributions of a block's positions. A path's chance is the product of its tokens'
// chances, each of them independent of the others or given the token before it, and of all trees of as many nodes the
// one made of the likeliest paths has most tokens accepted. Source: DDTree (arXiv 2604.12989).

#include <cstdint>
#include <span>
#include <vector>

#include "decode/propose/proposer.h"
#include "device/choose.h"

namespace ashlar {

/// Spare pages (KvLayout) for the rows of trees that do not stand in the first branch, of up to `sequences` sequences.
int32_t branch_pages(int32_t branches, int32_t width, int32_t sequences);

/// Where a tree's tokens come from.
class CandidateSource {
 public:
  virtual ~CandidateSource() = default;
  /// Of the position that stands `depth` after the last token, from 1, where `before` precedes it. Asked for only where
  /// a tree may reach; valid until the next call.
  virtual const LikeliestTokens& at(int32_t depth, int32_t before) = 0;
  /// What stands for the last token in `before`, and for the token of place `rank` among those after `before`. Where
  /// candidates depend on no more than the token before them, that is the token.
  virtual int32_t root(int32_t last_token) { return last_token; }
  virtual int32_t after(int32_t /*before*/, size_t /*rank*/, int32_t token) { return token; }
};

/// A branch is worth its page table only if it may well be taken.
inline constexpr float kMinBranchLogChance = -3.9F;  // 2 %

class DraftTreeBuilder {
 public:
  DraftTreeBuilder();
  /// Fills rows 1 .. span.width - 1 of the span with the likeliest paths, at most span.branches of them after the
  /// first; fewer where there are no more candidates. `deepest`: the last position that has some. Predicts the chances
  /// of up to `most` drafts, as if positions beyond the last were like it.
  void build(CandidateSource& candidates, int32_t deepest, int32_t most, ChainSpan& span);

 private:
  struct Path {
    float log_chance;  // of the whole path
    int32_t parent;    // node
    int32_t depth;     // of the new node, from 1
    int32_t rank;      // among the candidates there
    int32_t before;    // what stands for the node's parent in the source
  };
  static bool less(const Path& a, const Path& b);
  struct Node {
    int32_t id, parent, depth;
    int32_t first_child, last_child, next;  // 0: none
  };
  void expand(CandidateSource& candidates, int32_t deepest, const Path& path, int32_t node, bool may_branch);
  void write_rows(int32_t n, ChainSpan& span);

  std::vector<Path> open_;   // a heap
  std::vector<Node> nodes_;  // best first; 0 is the last token
  std::vector<int32_t> stack_, row_of_;
};

}  // namespace ashlar
