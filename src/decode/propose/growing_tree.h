// SPDX-License-Identifier: Apache-2.0
#pragma once
// A tree of drafts that grows pass by pass: what may follow a node is known once the drafter has run a row for it. Each
// pass runs the likeliest nodes of its depth that may still be among the drafts. Source: EAGLE-2 (arXiv 2406.16858),
// whose trees have as many nodes a pass.

#include <array>
#include <vector>

#include "decode/propose/draft_tree.h"

namespace ashlar {

class GrowingTree final : public CandidateSource {
 public:
  /// A token whose row the drafter runs; node 0 is the last token.
  struct Node {
    int32_t id = 0;
    int32_t parent = -1;  ///< node
    int32_t depth = 0;    ///< positions after the last token
    int32_t row = -1;     ///< of its pass; the caller's
    int32_t scratch_slot = -1;
    float log_chance = 0;  ///< of its path
    LikeliestTokens next;
    std::array<int32_t, LikeliestTokens::kMost> child = {};  ///< nodes of `next`; 0: none
  };

  /// For trees of up to `passes` passes of `beam` nodes after the first.
  void reserve(int32_t passes, int32_t beam);
  /// A tree of the last token alone, to choose `drafts` drafts from in up to `branches` branches after the first.
  void begin(int32_t last_token, int32_t drafts, int32_t branches);
  std::vector<Node>& nodes() { return nodes_; }
  /// The nodes of the newest pass: from this one on.
  size_t newest() const { return newest_; }
  void answer(size_t node, const LikeliestTokens& next);
  /// Makes nodes of the `beam` likeliest candidates after the newest nodes, if there are any worth it.
  bool grow(int32_t beam);

  const LikeliestTokens& at(int32_t depth, int32_t before) override;
  int32_t root(int32_t last_token) override;
  int32_t after(int32_t before, size_t rank, int32_t token) override;

 private:
  struct Candidate {
    float log_chance;
    int32_t parent;
    int32_t rank;
  };
  /// Whether a path of this chance may be among the drafts, by those that are known.
  bool may_be_draft(float chance, bool begins_branch) const;

  size_t drafts_ = 0, branches_ = 0;
  size_t newest_ = 0;
  std::vector<Node> nodes_;
  // Chances of the likeliest paths so far, falling: of those that continue what they come from, at most drafts_, and of
  // those that begin a branch, at most branches_.
  std::vector<float> continuing_, branching_;
  std::vector<Candidate> candidates_;
};

}  // namespace ashlar
