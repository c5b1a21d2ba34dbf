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

namespace ashlar {

/// What a selector says of rows, in host memory.
struct SelectedEdges {
  int32_t n = 0;                  ///< candidates of a row
  std::span<const int32_t> ids;   ///< [rows, n], those with the highest logits first
  std::span<const float> scores;  ///< [rows, n, n]: candidate by candidate of the row before

  const int32_t* candidates(int32_t row) const { return ids.data() + int64_t{row} * n; }
  /// Scores of the row's candidates after candidate `before` of the row before; 0 where the row begins a block.
  const float* after(int32_t row, int32_t before) const { return scores.data() + (int64_t{row} * n + before) * n; }
};

/// With U the logits of a position, y its final hidden state and W, A, B what is bound here: token b after token a
/// scores U[b] + sum of A[a] * W y * B[b].
class CandidateSelector {
 public:
  /// Binds what `names` calls, after PREFIX, the projection [rank, hidden] and the codes of predecessors and successors
  /// [vocab, rank]. `hidden_scale`: by what the rows that score() gets are y.
  CandidateSelector(WeightBinder& binder, const std::string& prefix, const DrafterNames& names,
                    const SelectorConfig& config, int32_t hidden, int32_t vocab, float hidden_scale);

  const SelectorConfig& config() const { return config_; }
  size_t bytes_read() const { return projection_->bytes(); }  ///< by a call, which gathers a few codes besides
  /// For up to `rows` rows a call.
  void reserve(Ops& ops, int32_t rows);

  struct Begin {
    int32_t row = 0;    ///< a block's first
    int32_t token = 0;  ///< which comes before that
  };
  /// Waits. hidden: [rows, hidden], logits: [rows, vocab] in fp32, the first of them a block's first. Valid until the
  /// next call.
  SelectedEdges score(Ops& ops, Tensor hidden, Tensor logits, std::span<const Begin> begins);

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
