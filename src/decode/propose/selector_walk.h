// SPDX-License-Identifier: Apache-2.0
#pragma once
// Drafts from a head that has candidates: a walk along a block, position by position, each draft chosen among the
// scores of what may follow the one before it, by the request's own sampling and its noise. What a draft was drawn from
// is known, so that rejection may ask for it; and a tree grows along the likeliest edges. Source: DFlash2
// (z-lab/dflash).

#include <span>
#include <vector>

#include "decode/propose/draft_tree.h"
#include "decode/propose/proposer.h"
#include "device/sampling/sampler.h"
#include "model/drafters/heads/candidate_head.h"

namespace ashlar {

class SelectorWalk final : public CandidateSource {
 public:
  /// `candidates`: of a position.
  SelectorWalk(Ops& ops, int32_t candidates, int32_t vocab);

  /// The block of `span`: row `first_row` of the edges says what follows its last token. All
  /// outlive the walk along it.
  void begin(const SelectedEdges& edges, int32_t first_row, const ChainSpan& span, const Slot& slot);

  /// Fills the span's drafts. `distributions`: [width, vocab] in device memory, where what each was drawn from is left;
  /// null: nowhere, and the drafts are those that coupled noise chooses.
  void fill_chain(ChainSpan& span, float* distributions);

  const LikeliestTokens& at(int32_t depth, int32_t before) override;

 private:
  /// What is asked about the candidates of the position `depth` after the last token.
  RowRequest request(int32_t depth, Pick pick) const;
  /// The answer, where candidate `before` of the position before precedes them.
  RowChoice choose(const RowRequest& request, int32_t depth, int32_t before);
  /// Which candidate of that position a token is; the likeliest if it is none.
  int32_t index_of(int32_t depth, int32_t token) const;

  Ops& ops_;
  SelectedEdges edges_;
  int32_t first_row_ = 0;
  const ChainSpan* span_ = nullptr;
  const Slot* slot_ = nullptr;
  std::vector<float> scores_;               // [n]: those of one position, to be adjusted
  std::vector<float> distribution_;         // [vocab]
  std::vector<LikeliestTokens> likeliest_;  // by depth and candidate before, where `known_`
  std::vector<uint8_t> known_;
  SamplerScratch scratch_;
};

}  // namespace ashlar
