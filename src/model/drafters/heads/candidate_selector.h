// SPDX-License-Identifier: Apache-2.0
#pragma once
// The candidate selector of a drafter: of each position of a block the likeliest tokens, and what each of them scores
// after each candidate of the position before. Source: DFlash2 (z-lab/dflash).

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "device/device_array.h"
#include "device/ops.h"
#include "model/binding/weight_binder.h"
#include "model/drafters/dflash_config.h"
#include "model/drafters/heads/candidate_head.h"

namespace ashlar {

/// With U the logits of a position, y its final hidden state and W, A, B what is bound here: token b after token a
/// scores U[b] + sum of A[a] * W y * B[b].
class CandidateSelector final : public CandidateHead {
 public:
  /// Binds what `names` calls, after PREFIX, the projection [rank, hidden] and the codes of predecessors and successors
  /// [vocab, rank]. `hidden_scale`: by what the rows that score() gets are y.
  CandidateSelector(WeightBinder& binder, const std::string& prefix, const DrafterNames& names,
                    const SelectorConfig& config, int32_t hidden, int32_t vocab, float hidden_scale);

  int32_t candidates() const override { return config_.top_k; }
  size_t bytes_read() const override { return projection_->bytes(); }  ///< besides a few codes
  void reserve(Ops& ops, int32_t rows) override;
  SelectedEdges score(Ops& ops, const CandidateRows& rows) override;

 private:
  SelectorConfig config_;
  float scale_;
  std::unique_ptr<Weight> projection_, predecessors_, successors_;
  int32_t max_rows_ = 0;
  DeviceArray<int32_t> begins_, anchors_;
  DeviceArray<float> logits_, hidden_;
  DeviceArray<std::byte> found_;   // ids and scores, which the host gets at once
  std::unique_ptr<Buffer> codes_;  // of anchors, and of candidates as predecessors and as successors
  std::vector<int32_t> host_begins_, host_anchors_;
};

}  // namespace ashlar
